"""Which algorithm and protocol is left for each of NCCL's functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stoker.tuning import versions
from stoker.tuning.catalogue import Catalogue
from stoker.tuning.faults import shown
from stoker.tuning.lists import FUNCTIONS, chosen_by_function, words
from stoker.tuning.model import Remark, Setting

PROTOCOLS = ("LL", "LL128", "Simple")
_FACTS = "facts: read from NCCL 2.30.7's source"
_TUNING = f"{_FACTS}; src/graph/tuning.cc"
# The functions that each algorithm can do; those that need Simple do nothing under LL and LL128.
_CAN: Mapping[str, frozenset[str]] = {
    "Tree": frozenset({"AllReduce"}),
    "Ring": frozenset(FUNCTIONS),
    "CollNetDirect": frozenset({"AllReduce", "AllGather", "ReduceScatter"}),
    "CollNetChain": frozenset({"AllReduce"}),
    "NVLS": frozenset({"AllReduce", "AllGather", "ReduceScatter"}),
    "NVLSTree": frozenset({"AllReduce"}),
    "PAT": frozenset({"AllGather", "ReduceScatter"}),
}
_ANY_PROTOCOL = frozenset({"Tree", "Ring"})
_LISTS = (("NCCL_ALGO", tuple(_CAN)), ("NCCL_PROTO", PROTOCOLS))
# What switches an algorithm off: the variable, the value, and whether that is how it is unset.
_SWITCHES = (
    (("NVLS", "NVLSTree"), "NCCL_NVLS_ENABLE", False),
    (("PAT",), "NCCL_PAT_ENABLE", False),
    (("CollNetDirect", "CollNetChain"), "NCCL_COLLNET_ENABLE", True),
)


def protocols(env: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The protocols that are allowed for each function."""
    return chosen_by_function(env.get("NCCL_PROTO", ""), PROTOCOLS)


def algorithms(env: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The algorithms that are allowed for each function."""
    return chosen_by_function(env.get("NCCL_ALGO", ""), tuple(_CAN))


def without_any(env: Mapping[str, str], setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """A function that neither algorithm nor protocol is left for fails at its first call."""
    if versions.before(setting.versions.get("nccl", ""), "2.24"):
        return  # it fell back to Ring
    if any(_garbled(env.get(name, ""), known) for name, known in _LISTS):
        return  # an unknown word is said elsewhere, and what becomes of the list then is anybody's guess
    allowed, spoken = algorithms(env), protocols(env)
    bare = [f for f in FUNCTIONS if not any(_works(a, f, spoken[f]) for a in allowed[f])]
    if not bare:
        return
    name = "NCCL_ALGO" if "NCCL_ALGO" in env else "NCCL_PROTO"
    what = f"{name}={shown(env[name])} leaves {', '.join(bare)} without an algorithm"
    reason = "such a call ends with 'No algorithm/protocol available', and engines use more than AllReduce"
    mend = "" if name == "NCCL_PROTO" else f"allreduce:{env[name]}" if _plain(env[name], bare) else "Ring"
    yield Remark(name, "error", "nccl-no-algorithm", what, reason, _TUNING, mend)


def switched_off(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """An algorithm that is asked for by name and switched off by another variable."""
    value = env.get("NCCL_ALGO", "")
    asked = {
        w.lower() for part in value.split(";") if "^" not in part for w in part.rpartition(":")[2].split(",")
    }
    for names, switch, by_default in _SWITCHES:
        wanted = [n for n in names if n.lower() in asked]
        if wanted and env.get(switch, "0" if by_default else "") == "0":
            what = f"NCCL_ALGO={shown(value)} asks for {', '.join(wanted)}, which {switch} does not allow"
            reason = "it is off unless set to 1" if by_default and switch not in env else "both cannot hold"
            source = "NCCL user guide 2.29, Environment Variables"
            yield Remark("NCCL_ALGO", "warning", "nccl-algorithm-off", what, reason, source, f"{switch}: 1")


def ll128_forced(env: Mapping[str, str], _setting: Setting, _known: Catalogue) -> Iterator[Remark]:
    """LL128 by name is used even where the platform does not have it."""
    value = env.get("NCCL_PROTO", "")
    lists = [part.rpartition(":")[2] for part in value.split(";")]
    if any(not part.startswith("^") and "ll128" in part.lower().split(",") for part in lists):
        what = f"NCCL_PROTO={shown(value)} forces LL128"
        reason = (
            "where the platform does not support it, data may be corrupted; unset, NCCL uses it where it does"
        )
        yield Remark("NCCL_PROTO", "warning", "nccl-ll128-forced", what, reason, _FACTS, "")


def _works(algorithm: str, function: str, spoken: frozenset[str]) -> bool:
    usable = spoken if algorithm in _ANY_PROTOCOL else spoken & {"Simple"}
    return function in _CAN[algorithm] and bool(usable)


def _garbled(value: str, known: Sequence[str]) -> bool:
    return any(list(words(part.rpartition(":")[2], known)) for part in value.split(";")) if value else False


def _plain(value: str, bare: list[str]) -> bool:
    """Whether the same list would do for AllReduce alone."""
    return "AllReduce" not in bare and ":" not in value and ";" not in value
