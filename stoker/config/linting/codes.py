"""The linter's own codes: how grave each is, why it matters and what to do, as data (also for its page).

Those of environment variables are the tuning room's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from stoker.tuning import Severity

_SIZES = "the engines' own checks at the start: SGLang 0.5.23, vLLM 0.32.0"
_HELP = "the engine's own --help, as stored or as the host told it"


@dataclass(frozen=True)
class Code:
    """One kind of finding.

    Args:
        severity: Usually; where it is proven on a host it may be graver.
        title: What it is about.
        reason: Why it matters.
        mend: What to do.
        source: Where that is known from.
    """

    severity: Severity
    title: str
    reason: str = ""
    mend: str = ""
    source: str = ""


CODES: Mapping[str, Code] = MappingProxyType({
    "settings-invalid": Code(
        "error",
        "A setting in invoke.yaml that Stoker does not have, or a value that it does not take.",
        "No command begins with a wrong setting.",
    ),
    "inventory-invalid": Code(
        "error",
        "A mistake in the inventory, or in a file of group_vars or host_vars.",
        "No command that takes hosts begins with a wrong inventory.",
    ),
    "inventory-profile": Code(
        "error",
        "stoker_profiles names a profile that there is not.",
        "Every command that asks what should run on the host ends there.",
        "correct the name, or write the profile",
    ),
    "profile-invalid": Code(
        "error",
        "A mistake in a profile, as it is resolved for a host.",
        "It cannot be launched.",
    ),
    "profile-undefined": Code(
        "warning",
        "A profile that is meant for no host uses a variable that no host defines.",
        "It can be launched nowhere as things are.",
        "define it in the inventory, or correct the name",
    ),
    "template-invalid": Code(
        "error",
        "A launch template that is no Jinja2, uses what there is not, or leaves the sandbox.",
        "Nothing that it is taken for can be launched.",
    ),
    "template-unused": Code(
        "warning",
        "A launch template that is taken for no profile.",
        "A template is PROFILE.sh.j2, ENGINE.sh.j2 or launch.sh.j2; under another name it does nothing.",
        "name it after a profile or an engine, or remove it",
    ),
    "playbook-invalid": Code(
        "error",
        "A mistake in a playbook, as far as it can be known without running it.",
        "The playbook ends before its first task.",
    ),
    "baseline-invalid": Code(
        "error",
        "A baseline that cannot be read, or two of the same.",
        "Results are not judged against it.",
        "accept again with inv baseline",
    ),
    "baseline-host": Code(
        "warning",
        "The baseline of a host that the inventory does not have.",
        "No result can ever be judged against it.",
        "remove the file, or rename the host in it",
    ),
    "baseline-engine": Code(
        "warning",
        "The baseline of an engine that Stoker does not know.",
        "No result can ever be judged against it.",
        "remove the file",
    ),
    "baseline-profile": Code(
        "advice",
        "The baseline was measured with a profile that is no longer there.",
        "Results are still judged against it; what it was measured with can no longer be looked up.",
        "accept a run of a profile that exists",
    ),
    "slot-twice": Code(
        "error",
        "Two profiles of one host use the same slot.",
        "A slot holds one server: every command that does not name the profile ends there.",
        "give one of them another server.name, or take it out of stoker_profiles",
    ),
    "port-clash": Code(
        "error",
        "Two servers of one host listen on the same port.",
        "The second one does not start.",
        "give one of them another server.port",
    ),
    "gpu-clash": Code(
        "error",
        "Two servers of one host use the same GPU.",
        "Stoker gives a GPU to one slot: the second start stops before anything is ended.",
        "divide the GPUs in server.gpus",
    ),
    "gpus-too-few": Code(
        "error",
        "The parallel sizes ask for more GPUs than server.gpus has.",
        "The engine does not start.",
        "list more GPUs, or make the sizes smaller",
        _SIZES,
    ),
    "gpus-idle": Code(
        "advice",
        "The parallel sizes use fewer GPUs than server.gpus has.",
        "The others stay reserved for this server, and idle.",
        "make the sizes greater, or list fewer GPUs",
        _SIZES,
    ),
    "argument-unknown": Code(
        "warning",
        "An argument that the engine's help does not name; an error where the host's engine proved it.",
        "The engine does not start with an argument that it does not know.",
        "correct it, or ask the host's engine: inv lint --online",
        _HELP,
    ),
    "argument-removed": Code(
        "warning",
        "An argument that the engine no longer has.",
        "The engine knows the name only to say that it is gone.",
        "take it out",
        _HELP,
    ),
    "argument-twice": Code(
        "warning",
        "Two names of one argument.",
        "The later one wins without a word.",
        "leave one of them out",
        _HELP,
    ),
    "argument-ours": Code(
        "error",
        "An argument for the model, the address or the port.",
        "Stoker gives it from server.model, server.bind and server.port, and proves it.",
        "take it out",
        _HELP,
    ),
    "argument-value": Code(
        "warning",
        "A value for a bare flag, none for an argument that needs one, or one that is not among the choices.",
        "The engine refuses it at the start.",
        "",
        _HELP,
    ),
    "secret-literal": Code(
        "warning",
        "What looks like a credential stands in the file; an error where its form says what it is.",
        "Profiles are read in reviews, and kept in git, in records and in the launch script.",
        "write !secret NAME, and set NAME where the commands run",
    ),
    "bind-open": Code(
        "advice",
        "The server listens on every address of the host and asks for no key.",
        "Whoever reaches the host can use the server.",
        "set server.api_key: !secret NAME where the engine takes one, or bind to one address",
    ),
    "drain-blind": Code(
        "warning",
        "hooks.drain_s with an engine whose metrics are off.",
        "Without metrics nobody knows when the last request has ended: every stop waits all of drain_s.",
        "switch the engine's metrics on",
    ),
})  # fmt: skip
