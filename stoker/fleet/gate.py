"""What is linted before a host is touched: the profiles that a command is about to launch or measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from stoker.config.linting import profile as lint_profile
from stoker.config.linting.host import Meant, clashes
from stoker.config.linting.lint import Finding, fold
from stoker.errors import ConfigError

if TYPE_CHECKING:
    from stoker.config.inventories.inventory import Host
    from stoker.config.profiles.profile import Examined
    from stoker.plan import LaunchPlan


class Gate:
    """Lints each resolved profile once, however many hosts it is for.

    Args:
        examine: Finds a profile for a host, as far as it can be resolved.
    """

    def __init__(self, examine: Callable[[str, Host], Examined]) -> None:
        self._examine = examine
        self._judged: dict[tuple[str, str], Sequence[Finding]] = {}

    def check(self, host: Host, plans: Iterable[LaunchPlan], *, together: bool = True) -> None:
        """Lint what is about to be used on a host.

        Args:
            host: The host.
            plans: Of the profiles.
            together: They are to run side by side.

        Raises:
            ConfigError: Every error in them.
        """
        wrong: list[Finding] = []
        meant = []
        for plan in plans:
            if plan.profile.startswith("run:"):
                continue  # a record's profile stands in no file, and did run
            examined = self._examine(plan.profile, host)
            key = (plan.profile, plan.profile_hash)
            if key not in self._judged:
                self._judged[key] = fold(lint_profile.check(examined))
            wrong += [one for one in self._judged[key] if one.severity == "error"]
            if examined.profile is not None:
                meant.append(Meant(plan.profile, examined.tree, examined.profile))
        wrong += clashes(meant) if together else ()
        if wrong:
            raise ConfigError([one.problem() for one in wrong])

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The warnings about everything that was let through, each once."""
        found = [one for said in self._judged.values() for one in said if one.severity == "warning"]
        return fold(found)
