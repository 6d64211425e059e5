"""Host + profile → LaunchPlan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stoker import engines
from stoker.config.profiles.profile import Profile, SecretRef
from stoker.config.templating import script
from stoker.engines.base import Engine
from stoker.plan import argv
from stoker.plan.model import HookPolicy, Instead, KillPolicy, LaunchPlan, ReadyPolicy

if TYPE_CHECKING:
    from stoker.config.inventories.inventory import Host
    from stoker.config.secrecy.secrets import Secrets

__all__ = ["HookPolicy", "Instead", "KillPolicy", "LaunchPlan", "ReadyPolicy", "build"]

_TEMPLATES = Path(__file__).parent.parent / "templates"
# What every launch keeps of the login's environment; the last two come from the launcher.
_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "STOKER_LAUNCH", "STOKER_GPUS")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class _Program:
    """What the launch script becomes, and how it is ended: the server, or what runs in its place."""

    slot: str
    engine: Engine
    port: int
    python: str
    argv: tuple[str, ...]
    expect: dict[str, str]
    kill: KillPolicy
    hooks: HookPolicy


def build(
    host: Host,
    profile_name: str,
    profile: Profile,
    *,
    secrets: Secrets | None,
    templates: Sequence[Path],
    instead: Instead | None = None,
) -> LaunchPlan:
    """The complete plan of a resolved profile on a host.

    Args:
        host: The host.
        profile_name: The profile's name, or ``run:RUN-ID``.
        profile: As resolved for this host.
        secrets: Where secrets are looked up; None leaves them out, for a plan that launches nothing.
        templates: Folders with the user's launch templates: the first of ``PROFILE.sh.j2``, ``ENGINE.sh.j2``
            and ``launch.sh.j2`` that is there is taken, else Stoker's own.
        instead: What runs in place of the server, on no port; None: the server.

    Raises:
        InputError: There is no such secret, or a launch template is wrong.
    """
    server, engine = profile.server, engines.get(profile.engine)
    program = _in_place(profile, engine, instead) if instead else _server(profile, engine)
    references = _references(profile, engine)
    plan = LaunchPlan(
        host=host.name,
        profile=profile_name,
        profile_hash=profile.hash,
        slot=program.slot,
        engine=program.engine,
        model=server.model,
        model_path=server.model if server.model.startswith("/") else "",
        served_names=argv.served_names(profile),
        bind=server.bind,
        port=program.port,
        gpus=server.gpus,
        python=program.python,
        path=":".join([*argv.bin_folders(server), _PATH]),
        setup=tuple(server.setup),
        env={name: value for name, value in profile.env.items() if isinstance(value, str)},
        inherit=server.inherit,
        expect=program.expect,
        argv=program.argv,
        script="",
        kill=program.kill,
        ready=ReadyPolicy(profile.ready.timeout_s, profile.ready.stall_s),
        bench=profile.bench.model_dump(),
        resolved=profile.to_plain(),
        secrets={} if secrets is None else _values(references, secrets, host),
        hooks=program.hooks,
    )
    return replace(plan, script=_script(plan, engine, templates, has_secrets=bool(references)))


def _script(plan: LaunchPlan, engine: Engine, templates: Sequence[Path], *, has_secrets: bool) -> str:
    """The launch script, by the first template that there is: the profile's, its engine's, any, ours."""
    context = {
        "profile": plan.profile,
        "hash": plan.profile_hash,
        "host": plan.host,
        "slot": plan.slot,
        "engine": engine.name,
        "kept": [*_KEPT, *plan.inherit],
        "path": plan.path,
        "gpus": [] if plan.gpus == ("all",) else list(plan.gpus),
        "env": plan.env,
        "secrets": has_secrets,
        "setup": list(plan.setup),
        "argv": list(plan.argv),
    }
    names = [f"{plan.profile}.sh.j2", f"{engine.name}.sh.j2", "launch.sh.j2"]
    return script.render(names, [*templates, _TEMPLATES], context)


def _server(profile: Profile, engine: Engine) -> _Program:
    """The server itself."""
    server, hooks = profile.server, profile.hooks
    python = argv.python(server, engine)
    return _Program(
        slot=server.name,
        engine=engine,
        port=server.port,
        python=python,
        argv=tuple(argv.argv(server, engine, python)),
        expect=dict(profile.expect),
        kill=KillPolicy(profile.kill.protect, argv.grace_s(profile, engine)),
        hooks=HookPolicy(hooks.before_stop, hooks.after_ready, hooks.drain_s),
    )


def _in_place(profile: Profile, engine: Engine, instead: Instead) -> _Program:
    """What runs in its place: nothing listens or drains, and no engine turns one variable into another."""
    python = argv.python(profile.server, engine) or "python3"
    return _Program(
        slot=instead.slot,
        engine=instead.engine,
        port=0,
        python=python,
        argv=(*profile.server.wrap, *(python if word == "{python}" else word for word in instead.command)),
        expect={},
        kill=instead.kill,
        hooks=HookPolicy(),
    )


def _references(profile: Profile, engine: Engine) -> dict[str, SecretRef]:
    """The variables whose values are secrets."""
    found = {name: value for name, value in profile.env.items() if isinstance(value, SecretRef)}
    if profile.server.api_key is not None:
        found[engine.api_key_env] = profile.server.api_key
    return found


def _values(references: dict[str, SecretRef], secrets: Secrets, host: Host) -> dict[str, str]:
    return {
        variable: secrets.referred(reference.name, host.vars, where=reference.place)
        for variable, reference in references.items()
    }
