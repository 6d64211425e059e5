"""Explain: the story's case exactly, and what else can make a server slow, each alone and among noise."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from stoker.results.baselines.baseline import Baselines
from stoker.results.explaining.causes import Cause
from stoker.results.explaining.explain import Explanation, explain
from stoker.results.explaining.look_args import flags
from tests.results.made import BY_ENGINE, GPU, TUNING, bad, fingerprint, good, record, subject

SLOW = [62.9, 62.8, 62.9, 63.0, 62.9]


def slow(**fields: Any) -> Any:
    """A slower run with the baseline's profile; ``fields`` of the fingerprint replace."""
    return record(SLOW, run_id="20260201-120000-node174-nccl-tuned-ffff", fingerprint=fingerprint(**fields))


def causes(**fields: Any) -> tuple[Cause, ...]:
    return explain(slow(**fields), good()).causes


def only(found: tuple[Cause, ...]) -> Cause:
    assert len(found) == 1, found
    return found[0]


def env(**changes: str | None) -> dict[str, str]:
    """The good environment with changes; None unsets."""
    merged = {**fingerprint()["env"], **changes}
    return {name: value for name, value in merged.items() if value is not None}


# The story.


@pytest.fixture
def story(tmp_path: Path) -> Explanation:
    baselines = Baselines(tmp_path)
    base = baselines.accept([good(n) for n in range(3)], by="ada", now=1767500000.0)
    return explain(bad(), base)


def test_the_six_lost_variables_are_on_top_and_nothing_else_is_likely(story: Explanation) -> None:
    assert {cause.name for cause in story.causes[:6]} == set(TUNING)
    assert all(cause.title == f"{cause.name} is gone" for cause in story.causes[:6])
    assert [cause.confidence for cause in story.causes[:6]] == ["likely"] * 6
    assert not [cause for cause in story.causes[6:] if cause.confidence == "likely"]


def test_what_the_others_kept_from_being_read_is_the_last_of_them(story: Explanation) -> None:
    """Under LL nothing reads the size of a Simple buffer: its loss costs nothing."""
    last = story.causes[5]
    assert last.name == "NCCL_BUFFSIZE"
    assert last.reason.endswith("what was set beside it kept it from being read")


def test_the_restart_explains_how_they_got_lost(story: Explanation) -> None:
    restart = story.causes[6]
    assert (restart.category, restart.confidence) == ("restart", "context")
    assert restart.title == "the host was restarted in between"
    assert "6 variables" in restart.reason


def test_each_lost_variable_says_what_it_was(story: Explanation) -> None:
    details = {cause.name: cause.detail for cause in story.causes[:6]}
    assert details == {name: f"{value} → unset" for name, value in TUNING.items()}


def test_what_was_checked_and_found_equal_is_told(story: Explanation) -> None:
    text = ", ".join(story.equal)
    for words in (
        "driver 580.159.04",
        "torch 2.9.1",
        "nccl 2.28.9",
        "8 GPUs",
        "SM clock 2400 MHz",
        "PCIe width 16",
        "power cap 600 W",
        "5 engine arguments",
        "no other process on the GPUs",
    ):
        assert words in text, words


def test_the_headline_is_the_story_in_one_line(story: Explanation) -> None:
    assert story.headline == "6 tuning variables are gone; the host was restarted in between"
    assert story.advice == ()
    assert story.unlike == ()
    assert story.base.label == "the baseline of 2026-01-04"


def test_what_the_engine_sets_itself_is_no_cause_when_it_is_the_same(story: Explanation) -> None:
    assert not {cause.name for cause in story.causes} & set(BY_ENGINE)


def test_stokers_own_marker_is_no_difference(story: Explanation) -> None:
    assert "STOKER_LAUNCH" not in {cause.name for cause in story.causes}


def test_nothing_differs_says_so_and_what_to_look_at_next() -> None:
    found = explain(slow(), good())
    assert found.causes == ()
    assert found.headline == "nothing that Stoker sees differs"
    assert any("measure more launches" in step for step in found.advice)
    assert any("inv doctor --host node174" in step for step in found.advice)


# Variables.


def test_a_changed_and_an_added_variable_come_after_a_lost_one() -> None:
    found = causes(env=env(NCCL_ALGO=None, NCCL_PROTO="Simple", NCCL_DEBUG="INFO"))
    assert [(c.name, c.title.split()[1]) for c in found] == [
        ("NCCL_ALGO", "is"),
        ("NCCL_PROTO", "has"),
        ("NCCL_DEBUG", "is"),
    ]
    assert found[1].detail == "LL → Simple"
    assert found[2].title == "NCCL_DEBUG is new"


def test_the_same_gpus_in_another_order_are_cosmetic() -> None:
    found = causes(env=env(CUDA_VISIBLE_DEVICES="7,6,5,4,3,2,1,0", NCCL_ALGO=None))
    assert [(c.name, c.confidence) for c in found] == [
        ("NCCL_ALGO", "likely"),
        ("CUDA_VISIBLE_DEVICES", "unlikely"),
    ]


def test_other_gpus_are_not_cosmetic() -> None:
    assert only(causes(env=env(CUDA_VISIBLE_DEVICES="0,1,2,3"))).confidence == "likely"


@pytest.mark.parametrize(
    "name",
    ["VLLM_CACHE_ROOT", "SGLANG_RUN_ID", "NCCL_DEBUG_FILE", "SGLANG_LOG_MS", "CUDA_HOME", "NCCL_VERSION"],
)
def test_places_identities_and_chatter_are_unlikely(name: str) -> None:
    assert only(causes(env=env(**{name: "x"}))).confidence == "unlikely"


@pytest.mark.parametrize(
    "name", ["NCCL_GRAPH_REGISTER", "NCCL_TOPO_FILE", "SGLANG_ENABLE_TORCH_COMPILE", "OMP_NUM_THREADS"]
)
def test_what_tunes_is_likely(name: str) -> None:
    assert only(causes(env=env(**{name: "9"}))).confidence == "likely"


def test_a_variable_of_another_engine_is_unlikely() -> None:
    cause = only(causes(env=env(VLLM_ATTENTION_BACKEND="X")))
    assert (cause.confidence, cause.reason) == ("unlikely", "sglang does not read it")


def test_nccl_matters_little_where_one_gpu_works_alone() -> None:
    gpus = [{"index": 0, "uuid": "GPU-0", **GPU}]
    base = record([90.0] * 5, fingerprint=fingerprint(gpus=gpus))
    found = explain(slow(gpus=gpus, env=env(NCCL_ALGO=None, OMP_NUM_THREADS="64")), base).causes
    assert [(c.name, c.confidence) for c in found] == [
        ("OMP_NUM_THREADS", "likely"),
        ("NCCL_ALGO", "possible"),
    ]


def test_unreadable_is_not_unset() -> None:
    blind = {
        "env": {},
        "env_hashed": {},
        "env_source": "unreadable",
        "unread": ["environment of worker 7 (sglang::scheduler): not permitted"],
    }
    found = explain(slow(**blind), good())
    assert [c for c in found.causes if c.category == "tuning"] == []
    assert found.unknown[0].what == "environment of the workers"
    assert "not permitted" in found.unknown[0].why
    assert any("make it readable" in step for step in found.advice)


def test_what_an_engine_sets_later_is_not_lost_when_only_exec_shows() -> None:
    at_exec = {name: value for name, value in fingerprint()["env"].items() if name not in BY_ENGINE}
    found = explain(slow(env=at_exec, env_source="exec", engine_set=[]), good())
    assert found.causes == ()
    assert {item.what for item in found.unknown} == set(BY_ENGINE)


def test_a_value_that_the_engine_sets_otherwise_is_possible() -> None:
    cause = only(causes(env=env(NCCL_NVLS_ENABLE="1")))
    assert (cause.confidence, cause.name) == ("possible", "NCCL_NVLS_ENABLE")


def test_an_identity_that_the_engine_makes_anew_is_no_difference() -> None:
    made = {"engine_set": [*BY_ENGINE, "SGLANG_RUN_ID"]}
    base = record([90.0] * 5, fingerprint=fingerprint(env=env(SGLANG_RUN_ID="a"), **made))
    assert explain(slow(env=env(SGLANG_RUN_ID="b"), **made), base).causes == ()


def test_workers_that_disagree_are_named_and_not_taken_for_a_loss() -> None:
    found = causes(env=env(NCCL_PROTO=None), env_differs={"NCCL_PROTO": {"10": "LL", "11": None, "12": "LL"}})
    cause = only(found)
    assert cause.title == "the workers disagree on NCCL_PROTO"
    assert cause.detail == "LL → LL or unset"
    assert cause.confidence == "likely"


def test_workers_that_have_always_differed_are_no_cause() -> None:
    ranks = {"LOCAL_RANK": {"10": "0", "11": "1"}}
    base = record([90.0] * 5, fingerprint=fingerprint(env_differs={"LOCAL_RANK": {"3": "0", "4": "1"}}))
    assert explain(slow(env_differs=ranks), base).causes == ()


def test_identities_that_every_worker_draws_anew_are_no_cause() -> None:
    # As vLLM 0.32's engine core and worker have them.
    def drawn(core: str, worker: str) -> dict[str, dict[str, str | None]]:
        buffers: dict[str, str | None] = {"1": f"vllm_mm_{core}", "2": f"vllm_mm_{worker}"}
        return {
            "VLLM_DIST_IDENT": {"1": None, "2": f"vllm_dist_{worker}"},
            "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME": buffers,
        }

    base = record([90.0] * 5, fingerprint=fingerprint(env_differs=drawn("a", "b")))
    assert explain(slow(env_differs=drawn("c", "d")), base).causes == ()


def test_other_variables_are_told_by_name_and_never_by_value() -> None:
    hashed = {**fingerprint()["env_hashed"], "HF_HOME": "dd", "LD_PRELOAD": "ee", "SSH_TTY": "ff"}
    found = causes(env_hashed=hashed)
    assert [(c.name, c.confidence) for c in found] == [
        ("LD_PRELOAD", "possible"),
        ("HF_HOME", "unlikely"),
        ("SSH_TTY", "unlikely"),
    ]
    assert all(secret not in str(found) for secret in ("'dd'", "'ee'", "'ff'", "cc"))
    assert found[1].detail == "a value → another value"


def test_hashes_under_another_salt_are_not_comparable() -> None:
    hashed = {name: f"other-{value}" for name, value in fingerprint()["env_hashed"].items()}
    found = explain(slow(env_hashed=hashed, salt_id="salt-2"), good())
    assert found.causes == ()
    assert [(item.what, item.why) for item in found.unknown] == [
        ("values of 3 other variables", "hashed under different salts")
    ]


def test_a_name_known_by_value_here_and_by_hash_there_is_not_comparable() -> None:
    found = explain(
        slow(
            env=env(OMP_NUM_THREADS=None), env_hashed={**fingerprint()["env_hashed"], "OMP_NUM_THREADS": "x"}
        ),
        good(),
    )
    assert found.causes == ()
    assert found.unknown[0].what == "OMP_NUM_THREADS"


# Restarts, profiles.


def host(**changes: Any) -> dict[str, Any]:
    return {**fingerprint()["host"], **changes}


def test_a_container_restart_is_told_as_one() -> None:
    cause = only(causes(host=host(init_start=99)))
    assert cause.title == "the container was restarted in between"
    assert cause.detail == "start of PID 1 10 → 99"
    assert only(causes(host=host(pid_ns="pid:[2]"))).title == "the container was restarted in between"


def test_a_restart_alone_is_context_and_no_cause() -> None:
    found = explain(slow(host=host(boot_id="boot-b")), good())
    assert only(found.causes).confidence == "context"
    assert found.advice != ()


def test_an_unknown_boot_is_unknown() -> None:
    found = explain(slow(host=host(boot_id="")), good())
    assert found.causes == ()
    assert found.unknown[0].what == "restart of the host"


def test_another_profile_and_an_edited_one_are_told_apart() -> None:
    other = record(SLOW, of=subject(profile="kimi-k25", profile_hash="f"))
    assert only(explain(other, good()).causes).title == "another profile"
    edited = record(SLOW, of=subject(profile_hash="f"))
    assert only(explain(edited, good()).causes).title == "profile nccl-tuned was edited"
    by_hand = record(SLOW, of=subject(profile="", profile_hash=""))
    assert only(explain(by_hand, good()).causes).detail == "nccl-tuned → started by hand"


# Arguments, versions.


def args(**changes: Any) -> dict[str, Any]:
    merged = {**fingerprint()["args"], **changes}
    return {name: value for name, value in merged.items() if value is not None}


def test_an_argument_that_somebody_typed_otherwise_is_likely() -> None:
    argv = [*fingerprint()["argv"][:-2], "4", "--trust-remote-code"]
    cause = only(causes(args=args(tp_size=4), argv=argv))
    assert (cause.title, cause.detail, cause.confidence) == ("argument tp_size is another", "8 → 4", "likely")


def test_an_argument_that_nobody_typed_otherwise_follows_from_something_else() -> None:
    assert only(causes(args=args(chunked_prefill_size=2048))).confidence == "possible"


def test_what_moves_from_launch_to_launch_is_unlikely_or_equal() -> None:
    assert causes(args=args(max_total_num_tokens=834000)) == ()
    assert only(causes(args=args(port=30001))).confidence == "unlikely"


def test_a_small_change_counts_where_somebody_typed_it() -> None:
    assert causes(args=args(mem_fraction_static=0.86)) == ()
    argv = [*fingerprint()["argv"], "--mem-fraction-static", "0.86"]
    cause = only(causes(args=args(mem_fraction_static=0.86), argv=argv))
    assert (cause.detail, cause.confidence) == ("0.85 → 0.86", "likely")


def test_a_flag_that_the_server_does_not_report_is_compared_from_the_command_line() -> None:
    cause = only(causes(argv=[*fingerprint()["argv"], "--disable-overlap"]))
    assert (cause.title, cause.confidence) == ("argument --disable-overlap is new", "likely")


def test_arguments_that_were_not_told_are_unknown() -> None:
    found = explain(
        slow(args={}, unread=["arguments as the server reports them: GET /server_info: 404"]), good()
    )
    assert found.causes == ()
    assert "404" in found.unknown[0].why


def test_flags_are_read_as_engines_read_them() -> None:
    argv = [
        "/v/bin/python",
        "-m",
        "x.y",
        "--a",
        "1",
        "--b=2",
        "--c",
        "--gpus",
        "0",
        "1",
        "-ngl",
        "0",
        "--t",
        "-1",
    ]
    assert flags(argv) == {"a": "1", "b": "2", "c": "true", "gpus": "0 1", "ngl": "0", "t": "-1"}


@pytest.mark.parametrize("name", ["engine", "nccl", "torch", "cuda", "driver", "kernel"])
def test_another_version_is_possible(name: str) -> None:
    versions = {**fingerprint()["versions"], name: "9.9"}
    cause = only(causes(versions=versions))
    assert (cause.title, cause.confidence) == (f"another {name}", "possible")
    assert cause.detail.endswith("→ 9.9")


def test_a_version_that_was_not_read_is_unknown() -> None:
    versions = {k: v for k, v in fingerprint()["versions"].items() if k != "nccl"}
    found = explain(slow(versions=versions, unread=["version of nccl: no libnccl is mapped"]), good())
    assert found.causes == ()
    assert "no libnccl is mapped" in found.unknown[0].why


# GPUs.


def gpus(**changes: Any) -> list[dict[str, Any]]:
    """The eight GPUs; ``changes`` for all of them."""
    return [{**copy.deepcopy(one), **changes} for one in fingerprint()["gpus"]]


@pytest.mark.parametrize(
    ("changes", "title", "detail"),
    [
        ({"pcie_width": 8}, "PCIe width of GPU 0,1,2,3,4,5,6,7 is lower", "16 → 8"),
        ({"pcie_gen": 3}, "PCIe generation of GPU 0,1,2,3,4,5,6,7 is lower", "5 → 3"),
        ({"power_limit_w": 450.0}, "power cap of GPU 0,1,2,3,4,5,6,7 is lower", "600 W → 450 W"),
        ({"clock_sm_mhz": 1200}, "SM clock of GPU 0,1,2,3,4,5,6,7 is lower", "2400 MHz → 1200 MHz"),
        ({"clock_mem_mhz": 405}, "memory clock of GPU 0,1,2,3,4,5,6,7 is lower", "12500 MHz → 405 MHz"),
    ],
)
def test_gpus_that_are_held_low_are_one_likely_cause(
    changes: dict[str, Any], title: str, detail: str
) -> None:
    cause = only(causes(gpus=gpus(**changes)))
    assert (cause.title, cause.detail, cause.confidence) == (title, detail, "likely")


def test_one_gpu_of_eight_is_named() -> None:
    eight = gpus()
    eight[3]["pcie_width"] = 4
    assert only(causes(gpus=eight)).title == "PCIe width of GPU 3 is lower"


def test_throttling_is_likely_and_tells_the_heat() -> None:
    hot = gpus(throttle={"mask": "0x40", "reasons": ["hw_thermal_slowdown"]}, temperature_c=91)
    cause = only(causes(gpus=hot))
    assert cause.title == "GPU 0,1,2,3,4,5,6,7 is held back"
    assert cause.detail == "nothing → hw_thermal_slowdown, 64 → 91 °C"
    assert cause.confidence == "likely"


def test_a_clock_that_wavers_and_an_idle_reason_are_no_cause() -> None:
    idle = {"mask": "0x1", "reasons": ["gpu_idle"]}
    assert causes(gpus=gpus(clock_sm_mhz=2350, temperature_c=70, throttle=idle)) == ()


def test_a_higher_clock_does_not_explain_a_loss() -> None:
    assert only(causes(gpus=gpus(clock_sm_mhz=2900))).confidence == "possible"


def test_fewer_gpus_and_other_cards_are_told() -> None:
    assert only(causes(gpus=gpus()[:4])).title == "4 GPUs fewer"
    cards = gpus()
    cards[0]["uuid"] = "GPU-other"
    assert only(causes(gpus=cards)).title == "GPU 0 is another card"
    assert only(causes(gpus=gpus(name="NVIDIA L4"))).confidence == "likely"


def test_a_gpu_that_fell_off_is_named_and_the_others_are_compared_each_with_itself() -> None:
    left = [gpu for gpu in gpus() if gpu["index"] != 5]
    left = [{**gpu, "index": place} for place, gpu in enumerate(left)]  # the driver counts anew
    left[6]["pcie_width"] = 8
    gone, slower = causes(gpus=left)
    assert (gone.title, gone.detail) == ("1 GPU fewer", "8 → 7: GPU 5 (GPU-5)")
    assert (slower.title, slower.detail) == ("PCIe width of GPU 6 is lower", "16 → 8")


def test_a_divided_gpu_and_failing_memory_are_told() -> None:
    was = explain(
        slow(gpus=gpus(mig=True, ecc_uncorrected=3)),
        good(fingerprint=fingerprint(gpus=gpus(mig=False, ecc_uncorrected=0))),
    )
    assert [(cause.name, cause.detail, cause.confidence) for cause in was.causes] == [
        ("mig", "off → on", "likely"),
        ("ecc_uncorrected", "0 → 3", "possible"),
    ]


def test_gpus_that_were_not_read_are_unknown() -> None:
    found = explain(slow(gpus=[], unread=["GPUs: nvidia-smi did not answer within 30 s"]), good())
    assert found.causes == ()
    assert "did not answer" in found.unknown[0].why


def test_what_the_driver_does_not_know_is_unknown_and_not_a_change() -> None:
    found = explain(slow(gpus=gpus(power_limit_w=None)), good())
    assert found.causes == ()
    assert found.unknown[0].what == "power cap of the GPUs"


# Neighbours, limits, files.


def test_a_stranger_on_the_gpus_is_likely() -> None:
    stranger = {"pid": 99, "title": "python train.py", "user": "bob", "gpus": [0, 1]}
    cause = only(causes(strangers=[stranger]))
    assert (cause.title, cause.confidence) == ("python train.py (pid 99) is on GPU 0,1", "likely")


def test_a_stranger_that_was_always_there_is_no_cause() -> None:
    watcher = {"pid": 5, "title": "exporter", "user": "root", "gpus": [0]}
    base = record([90.0] * 5, fingerprint=fingerprint(strangers=[watcher]))
    assert explain(slow(strangers=[{**watcher, "pid": 77}]), base).causes == ()


def test_a_busy_host_is_possible() -> None:
    assert only(causes(host=host(load1=70.0))).title == "the host was busier"
    assert causes(host=host(load1=20.0)) == ()


@pytest.mark.parametrize(
    ("name", "value", "confidence"),
    [("cpus_allowed", "0-3", "likely"), ("nice", "19", "likely"), ("memlock", "65536", "possible")],
)
def test_another_share_of_the_machine_is_told(name: str, value: str, confidence: str) -> None:
    cause = only(causes(process={**fingerprint()["process"], name: value}))
    assert cause.confidence == confidence
    assert cause.detail.endswith(f"→ {value}")


def test_files_that_tune_nccl_are_compared_by_content() -> None:
    path = "/etc/nccl.conf"
    assert only(causes(conf_files={path: "ab" * 32})).title == f"{path} is new"
    base = record([90.0] * 5, fingerprint=fingerprint(conf_files={path: "ab" * 32}))
    assert (
        only(explain(slow(conf_files={path: "cd" * 32}), base).causes).title == f"{path} has another content"
    )
    unread = [f"{path}: Permission denied"]
    found = explain(slow(unread=unread), base)
    assert found.causes == ()
    assert "Permission denied" in found.unknown[0].why


# Together.


def test_the_physical_cause_stands_above_cosmetic_differences() -> None:
    found = causes(
        env=env(CUDA_VISIBLE_DEVICES="7,6,5,4,3,2,1,0", SGLANG_RUN_ID="x"),
        env_hashed={**fingerprint()["env_hashed"], "SSH_TTY": "1", "PATH": "2"},
        gpus=gpus(power_limit_w=300.0),
    )
    assert found[0].title.startswith("power cap")
    assert [c.confidence for c in found] == ["likely", "possible", "unlikely", "unlikely", "unlikely"]


def test_the_order_of_likely_causes_is_the_order_of_the_categories() -> None:
    found = causes(
        env=env(NCCL_ALGO=None),
        argv=[*fingerprint()["argv"], "--disable-overlap"],
        gpus=gpus(pcie_width=8),
        strangers=[{"pid": 1, "title": "x", "user": "y", "gpus": [0]}],
        process={**fingerprint()["process"], "nice": "10"},
        conf_files={"/etc/nccl.conf": "aa"},
    )
    assert [c.category for c in found] == [
        "tuning",
        "arguments",
        "gpus",
        "neighbours",
        "limits",
        "conf-files",
    ]


def test_unlike_measurements_are_still_explained_and_marked() -> None:
    found = explain(record(SLOW, model="other"), good())
    assert found.unlike == ("model: /models/Kimi-K2.5, other",)


def test_an_explanation_is_json_without_fingerprints() -> None:
    data = explain(bad(), good()).to_json()
    assert data["causes"][0]["name"] == "NCCL_ALGO"
    assert data["against"] == good().run_id
    assert "env_hashed" not in str(data)
