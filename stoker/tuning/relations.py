"""Rules about NCCL variables that stand together: conflicts, and settings that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stoker.tuning import collectives
from stoker.tuning.catalogue import Catalogue
from stoker.tuning.faults import shown
from stoker.tuning.model import Remark, Setting

_FACTS = "facts: read from NCCL 2.30.7's source"
_GUIDE = "NCCL user guide 2.29, Environment Variables"
# A bound below, the bound above, what the least one does to it.
_PAIRS = (
    ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
    ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
    ("NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS"),
)
_CAPPED = ("NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS")
# A size or count, and the protocol that alone reads it.
_READ_BY = (
    ("NCCL_BUFFSIZE", frozenset({"Simple"}), "nccl-buffsize-unread"),
    ("NCCL_LL_BUFFSIZE", frozenset({"LL"}), "nccl-buffsize-unread"),
    ("NCCL_LL128_BUFFSIZE", frozenset({"LL128"}), "nccl-buffsize-unread"),
    ("NCCL_NTHREADS", frozenset({"LL", "Simple"}), "nccl-nthreads-unread"),
    ("NCCL_LL128_NTHREADS", frozenset({"LL128"}), "nccl-nthreads-unread"),
)
_LOG_ONLY = (
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
)


def p2p_conflict(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """P2P_DISABLE beats P2P_LEVEL."""
    if _whole(env, "NCCL_P2P_DISABLE") == 1 and env.get("NCCL_P2P_LEVEL", "LOC") not in {"LOC", "0"}:
        what = f"NCCL_P2P_LEVEL={shown(env['NCCL_P2P_LEVEL'])} is not read, for NCCL_P2P_DISABLE=1 beats it"
        reason = "one of the two asks for direct access between GPUs, the other forbids it"
        mend = "leave one of the two out"
        yield Remark("NCCL_P2P_LEVEL", "error", "nccl-p2p-conflict", what, reason, _FACTS, mend)


def min_over_max(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """A least number above the greatest."""
    for low, high in _PAIRS:
        least, most = _whole(env, low), _whole(env, high)
        if least is not None and most is not None and least > most:
            what = f"{low}={least} is more than {high}={most}"
            reason = "the minimum is applied after the maximum, so that the maximum does nothing"
            yield Remark(low, "error", "nccl-min-over-max", what, reason, _FACTS, str(most))


def capped(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """Channels above the number of thread blocks."""
    blocks = _whole(env, "NCCL_MAX_CTAS")
    for name in _CAPPED:
        channels = _whole(env, name)
        if blocks is not None and channels is not None and channels > blocks:
            what = f"{name}={channels} is capped by NCCL_MAX_CTAS={blocks}"
            reason = "each channel takes a thread block"
            yield Remark(name, "advice", "nccl-capped", what, reason, _FACTS, str(blocks))


def unread(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """A size or count that no allowed protocol reads."""
    spoken = frozenset().union(*collectives.protocols(env).values())
    for name, readers, code in _READ_BY:
        if name in env and spoken and not spoken & readers:
            chosen = f"NCCL_PROTO={shown(env['NCCL_PROTO'])}"
            alone = " and ".join(sorted(readers))
            what = f"{name}={shown(env[name])} is read by {alone} alone, not under {chosen}"
            reason = "it costs memory and does nothing else" if "BUFF" in name else "it does nothing"
            yield Remark(name, "advice", code, what, reason, _FACTS, "")


def log_unread(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """Settings of a log that is not written; one that is, costs time."""
    asked = env.get("NCCL_DEBUG", "").upper()
    if asked == "INFO":
        what, reason = (
            "NCCL_DEBUG='INFO' logs every step of the start, and more",
            "it costs time: not in a measured run",
        )
        yield Remark("NCCL_DEBUG", "advice", "nccl-debug-costs", what, reason, _FACTS, "WARN")
    for name in _LOG_ONLY:
        if name in env and not asked:
            what = f"{name}={shown(env[name])} does nothing without NCCL_DEBUG"
            reason = "there is no log that it could be about"
            yield Remark(name, "advice", "nccl-debug-unread", what, reason, _GUIDE, "NCCL_DEBUG: INFO")


def sockets(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """Threads times sockets has a limit."""
    threads, each = _whole(env, "NCCL_SOCKET_NTHREADS"), _whole(env, "NCCL_NSOCKS_PERTHREAD")
    if threads and each and threads * each > 64:
        what = f"NCCL_SOCKET_NTHREADS={threads} times NCCL_NSOCKS_PERTHREAD={each} is more than 64"
        reason = "that is the most that NCCL opens for a connection"
        mend = str(max(1, 64 // threads))
        yield Remark("NCCL_NSOCKS_PERTHREAD", "error", "nccl-too-many-sockets", what, reason, _GUIDE, mend)


def infiniband_off(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """Settings of InfiniBand, which is switched off."""
    if _whole(env, "NCCL_IB_DISABLE") != 1:
        return
    for name in env:
        if name.startswith("NCCL_IB_") and name != "NCCL_IB_DISABLE" and _known.find(name):
            what = f"{name}={shown(env[name])} does nothing under NCCL_IB_DISABLE=1"
            yield Remark(name, "advice", "nccl-ib-unread", what, "InfiniBand is not used at all", _GUIDE, "")


def mnnvl(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """NVLink between hosts needs cuMem."""
    if _whole(env, "NCCL_MNNVL_ENABLE") == 1 and _whole(env, "NCCL_CUMEM_ENABLE") == 0:
        what = "NCCL_MNNVL_ENABLE=1 needs cuMem, and NCCL_CUMEM_ENABLE=0 forbids it"
        reason = "NCCL fails at start where NVLink between hosts is demanded and cannot be had"
        name, code = "NCCL_MNNVL_ENABLE", "nccl-mnnvl-needs-cumem"
        yield Remark(name, "error", code, what, reason, _GUIDE, "NCCL_CUMEM_ENABLE: 1")


def one_gpu(env: Mapping[str, str], setting: Setting, known: Catalogue) -> Iterator[Remark]:
    """NCCL has nothing to do on one GPU of one host."""
    hosts = str(setting.args.get("nnodes", 1) or 1)
    mine = sorted(n for n in env if n.startswith("NCCL_") and known.find(n))
    if mine and setting.gpus == 1 and hosts == "1":
        what = f"{mine[0]} and all of NCCL does nothing with one GPU"
        reason = "there is nobody to communicate with"
        yield Remark(mine[0], "advice", "nccl-one-gpu", what, reason, "NCCL user guide 2.29, Overview", "")


RULES = (
    p2p_conflict,
    min_over_max,
    capped,
    unread,
    log_unread,
    sockets,
    infiniband_off,
    mnnvl,
    one_gpu,
    collectives.without_any,
    collectives.switched_off,
    collectives.ll128_forced,
)
CODES = frozenset(
    {
        "nccl-p2p-conflict",
        "nccl-min-over-max",
        "nccl-capped",
        "nccl-buffsize-unread",
        "nccl-nthreads-unread",
        "nccl-debug-costs",
        "nccl-debug-unread",
        "nccl-too-many-sockets",
        "nccl-ib-unread",
        "nccl-mnnvl-needs-cumem",
        "nccl-one-gpu",
        "nccl-no-algorithm",
        "nccl-algorithm-off",
        "nccl-ll128-forced",
    }
)


def _whole(env: Mapping[str, str], name: str) -> int | None:
    """A variable's number, where it is one that leaves no doubt."""
    value = env.get(name, "").strip()
    return int(value) if re.fullmatch(r"0|[1-9][0-9]{0,17}", value, re.ASCII) else None
