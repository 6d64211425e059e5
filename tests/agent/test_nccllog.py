"""NCCL's own words: real logs of one rank on an H200, and lines of several ranks as NCCL writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.probing import nccllog, probemodel, probesheet

CASES = Path(__file__).parents[1] / "cases" / "nccl"
TUNED = {
    "NCCL_PROTO": "LL",
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_BUFFSIZE": "16777216",
    "NCCL_NTHREADS": "512",
}
SEVERAL = """\
h:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
h:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0
h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
h:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC
h:1:1 [0] NCCL INFO Channel 01 : 0[0] -> 4[4] via SHM/direct/direct
h:1:1 [0] NCCL INFO NCCL_PROTO set by environment to LL
h:1:1 [0] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels
h:1:1 [0] NCCL INFO AllReduce: 14336 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}
h:1:1 [0] NCCL INFO AllReduce: 917504 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..23}
h:1:1 [0] NCCL WARN Error : ring 0 does not loop back to start
"""


def case(name: str) -> nccllog.Log:
    return nccllog.parse((CASES / name).read_text().splitlines())


def states(log: nccllog.Log, env: dict[str, str]) -> dict[str, str]:
    return {row["name"]: row["state"] for row in nccllog.judged(log, env)}


def test_a_real_log_of_a_tuned_rank_tells_what_was_read() -> None:
    log = case("nccl-tuned.log")
    assert (log["version"], log["ranks"], log["channels"]) == ("2.28.9+cuda13.0", 1, 16)
    assert log["set"]["NCCL_BUFFSIZE"] == "16777216"
    assert states(log, TUNED) == {
        "NCCL_PROTO": "unmentioned",  # one rank has nothing to choose
        "NCCL_ALGO": "unmentioned",
        "NCCL_P2P_LEVEL": "read",
        "NCCL_MAX_NCHANNELS": "honoured",
        "NCCL_BUFFSIZE": "read",
        "NCCL_NTHREADS": "read",
    }


def test_a_value_that_nccl_refuses_is_invalid_with_its_words_once() -> None:
    log = case("nccl-typo.log")
    assert log["invalid"] == ["Invalid NCCL_NTHREADS 500 (must be a multiple of 32)"]
    found = {row["name"]: row for row in nccllog.judged(log, {"NCCL_NTHREADS": "500", "NCCL_BUFSIZE": "1"})}
    assert found["NCCL_NTHREADS"]["state"] == "invalid"
    assert found["NCCL_NTHREADS"]["why"] == log["invalid"][0]
    assert found["NCCL_BUFSIZE"]["state"] == "unmentioned"


def test_nothing_is_invalid_where_nothing_was_set() -> None:
    log = case("nccl-default.log")
    assert (log["set"], log["invalid"], log["channels"]) == ({}, [], 64)


def test_what_each_size_used_is_held_against_what_was_wanted() -> None:
    log = nccllog.parse(SEVERAL.splitlines())
    assert log["sizes"] == [
        {"bytes": 14336, "algorithm": "RING", "protocol": "LL", "channels": 4},
        {"bytes": 917504, "algorithm": "TREE", "protocol": "SIMPLE", "channels": 24},
    ]
    assert log["transports"] == {"P2P/IPC": 2, "SHM/direct/direct": 1}
    assert log["warnings"] == ["Error : ring 0 does not loop back to start"]
    told = states(log, {**TUNED, "NCCL_P2P_DISABLE": "1"})
    assert told["NCCL_PROTO"] == "contradicted"
    assert told["NCCL_ALGO"] == "contradicted"
    assert told["NCCL_MAX_NCHANNELS"] == "contradicted"
    assert told["NCCL_P2P_DISABLE"] == "contradicted"
    assert states(log, {"NCCL_ALGO": "^NVLS,CollNetDirect"}) == {"NCCL_ALGO": "honoured"}
    assert states(log, {"NCCL_ALGO": "allreduce:tree;broadcast:ring"}) == {"NCCL_ALGO": "contradicted"}
    assert states(log, {"NCCL_ALGO": "ring;allreduce:tree,ring"}) == {"NCCL_ALGO": "honoured"}
    assert states(log, {"NCCL_ALGO": "broadcast:ring"}) == {"NCCL_ALGO": "unmentioned"}
    assert states(log, {"NCCL_PROTO": "LL,Simple", "NCCL_MIN_NCHANNELS": "8"}) == {
        "NCCL_MIN_NCHANNELS": "honoured",
        "NCCL_PROTO": "honoured",
    }


def test_older_logs_name_algorithms_by_number() -> None:
    line = "h:1:1 [0] NCCL INFO 805306368 Bytes -> Algo 1 proto 2 time 3970.683594"
    (size,) = nccllog.parse([line])["sizes"]
    assert (size["algorithm"], size["protocol"], size["channels"]) == ("RING", "SIMPLE", None)


def test_channels_are_counted_as_each_version_tells_them() -> None:
    told = {
        "8 coll channels, 8 p2p channels, 2 p2p channels per peer": (8, 0),
        "4 coll channels, 4 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer": (
            4,
            0,
        ),
        "16 coll channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer": (16, 16),
    }
    for line, channels in told.items():
        log = nccllog.parse([f"gpu01:7:9 [0] NCCL INFO {line}"])
        assert (log["channels"], log["nvls_channels"]) == channels


def test_the_diagnosis_has_the_connections_of_all_ranks() -> None:
    texts = {"nccl.0.log": SEVERAL, "nccl.1.log": SEVERAL, "nccl-tests.measure.0.txt": ""}
    found = probesheet.diagnosis(texts, TUNED)
    assert found is not None
    assert found["transports"] == {"P2P/IPC": 4, "SHM/direct/direct": 2}
    assert len(found["variables"]) == len(TUNED)
    assert probesheet.diagnosis({}, TUNED) is None


@pytest.mark.parametrize(
    ("line", "way"),
    [
        (
            "INFO [cuda_communicator.py:50] Using ['CUSTOM', 'PYNCCL'] all-reduce backends for group 'tp:0'",
            "own",
        ),
        ("Using ['PYNCCL'] all-reduce backends for 'tp:0' out of potential backends: ['CUSTOM']", "nccl"),
        ("Using ['NCCL_SYMM_MEM', 'PYNCCL'] all-reduce backends", "nccl"),
        (
            "WARNING Custom allreduce is disabled because it's not supported on PCIe-only GPUs.",
            "nccl",
        ),
        ("Setup Custom allreduce failed with invalid argument", "nccl"),
        ("server_args=ServerArgs(tp_size=1, disable_custom_all_reduce=False)", "unknown"),
        ("server_args=ServerArgs(tp_size=8, disable_custom_all_reduce=False)", "own"),  # its default, untold
        ("server_args=ServerArgs(tp_size=8, disable_custom_all_reduce=True, enable_mscclpp=True)", "nccl"),
        ("server_args=ServerArgs(tp_size=8, enable_nccl_nvls=True, disable_custom_all_reduce=True)", "nvls"),
        (
            "h:1:1 [0] NCCL INFO AllReduce: 14336 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}",
            "nvls",
        ),
        ("server_args=ServerArgs(disable_custom_all_reduce=True)", "nccl"),
        ("INFO: Application startup complete.", "unknown"),
    ],
)
def test_an_engines_log_tells_through_what_it_reduces(line: str, way: str) -> None:
    assert probemodel.way_of([line])["way"] == way


def test_what_an_engine_tells_of_itself_comes_before_its_arguments() -> None:
    arguments = "server_args=ServerArgs(tp_size=8, disable_custom_all_reduce=False)"
    refused = "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs."
    assert probemodel.way_of([arguments])["lines"] == ["disable_custom_all_reduce=False, tp_size=8"]
    assert probemodel.way_of([arguments, refused]) == {"way": "nccl", "lines": [refused]}
