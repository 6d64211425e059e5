"""The evidence of a run on a real GPU: nothing that names the place, and no failure that hides."""

from __future__ import annotations

from pathlib import Path

from benchmarks.gpu.report import Report


def test_what_names_the_machine_is_replaced_the_longest_first(tmp_path: Path) -> None:
    report = Report({"/srv/a": "$STOKER", "/srv/a/work": "$WORK", "box7": "gpu-host"})
    uuid = "0b4bd2b0-5f0f-4b8e-9d0a-0123456789ab"
    report.ran("ls /srv/a/work", f"GPU-{uuid} on box7\n/sys/fs/cgroup/runner/77/stoker-tiny-1", 0.1, 0)
    report.write(tmp_path / "out.md", "Run", [("kernel", "6.1")])
    text = (tmp_path / "out.md").read_text()
    assert "$ ls $WORK\nGPU-<uuid> on gpu-host\n/sys/fs/cgroup/…/stoker-tiny-1" in text
    assert not any(word in text for word in ("/srv/a", "box7", uuid, "runner"))


def test_what_does_not_hold_stands_at_the_top(tmp_path: Path) -> None:
    report = Report({})
    report.check("one", True)
    report.check("two", False)
    report.write(tmp_path / "out.md", "Run", [])
    text = (tmp_path / "out.md").read_text()
    assert "1 of 2 checks hold.\n- two\n" in text
    assert "**DOES NOT HOLD**: two" in text
    assert report.failed() == ["two"]
