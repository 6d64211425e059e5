"""``inv profiles``: what profiles resolve to, where from, what differs, where they should run and do."""

from __future__ import annotations

from tests.e2e.project import ProjectFolder


def test_profiles_say_what_they_are_where_from_and_which_hosts_run_them(project: ProjectFolder) -> None:
    inventory = project.root / "inventory" / "hosts.yml"
    inventory.write_text(inventory.read_text().replace('"box": {', '"box": {"stoker_profiles": ["tuned"],'))
    listed = project.inv("profiles", env={"COLUMNS": "80"})
    assert listed.code == 0, listed.text
    assert max(map(len, listed.out.splitlines())) <= 80
    whole = project.inv("profiles", "--profile", "tuned")
    assert "profiles/tuned.yml:3" in whole.out, whole.text
    assert "profiles/plain.yml:1" in whole.out
    differ = project.inv("profiles", "--diff", "plain,tuned", "--json")
    assert differ.code == 0, differ.text
    assert differ.json["differences"]
    for side in (one["b"] for one in differ.json["differences"].values()):
        assert side["source"].startswith("profiles/tuned.yml:")
    assert project.inv("restart", "--host", "box", "--profile", "plain").code == 0
    running = project.inv("profiles", "--running", "--json")
    assert running.code == 0, running.text
    found = running.json["profiles"]
    assert (found["plain"]["runs_on"], found["tuned"]["runs_on"]) == (["box"], [])
    assert (list(found["plain"]["should_run_on"]), list(found["tuned"]["should_run_on"])) == ([], ["box"])
    assert project.inv("bench", "--host", "box", "--runs", "1").code == 0
    run_id = project.inv("results", "--json").json["results"][0]["run_id"]
    same = project.inv("profiles", "--diff", "plain", "--diff", f"run:{run_id}")
    assert "are the same" in same.out, same.text


def test_what_profiles_cannot_show_is_told(project: ProjectFolder) -> None:
    for argv in (
        ("--diff", "plain"),
        ("--diff", "plain,nope"),
        ("--profile", "nope"),
        ("--profile", "run:x"),
    ):
        ended = project.inv("profiles", *argv)
        assert ended.code == 2, ended.text
        assert "Traceback" not in ended.text
