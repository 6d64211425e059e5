"""Variables over variables, without copies: what is looked up in a host's can then be watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.config.inventories.inventory import Host

_NOTHING = object()


class Layers(Mapping[str, Any]):
    """Mappings over each other.

    Args:
        layers: The first that has a name wins.
    """

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> Any:
        for layer in self._layers:
            if name in layer:
                return layer[name]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(name in layer for layer in self._layers)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in reversed(self._layers) for name in layer))

    def __len__(self) -> int:
        return len(list(iter(self)))


class Without(Mapping[str, Any]):
    """A mapping without some of its names.

    Args:
        values: The mapping.
        hides: Whether a name is hidden.
    """

    def __init__(self, values: Mapping[str, Any], hides: Callable[[str], bool]) -> None:
        self._values = values
        self._hides = hides

    def __getitem__(self, name: str) -> Any:
        if self._hides(name):
            raise KeyError(name)
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values and not self._hides(str(name))

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._values if not self._hides(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Watched(Mapping[str, Any]):
    """A mapping that remembers what was looked up in it, a name that is not there among it.

    Args:
        values: The mapping.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._asked: dict[str, None] = {}

    def __getitem__(self, name: str) -> Any:
        self._asked[name] = None
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        self._asked[str(name)] = None
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def asked(self) -> tuple[str, ...]:
        """The names, in the order in which they were first looked up."""
        return tuple(self._asked)


class Kinds:
    """Hosts told apart by nothing but what was looked up in the variables of those before them.

    What several tasks looked up is compared once a host, however many tasks there are.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}
        self._asked: list[tuple[str, ...]] = []
        self._values: list[list[list[Any]]] = []  # of each tuple of names, all that hosts had
        self._of_host: list[dict[str, int]] = []  # of each tuple of names, a host's place among those

    def of_task(self) -> Fine:
        """For a task that no host was tried with."""
        return Fine(self)

    def number(self, asked: tuple[str, ...]) -> int:
        """What stands for these names."""
        if asked not in self._numbers:
            self._numbers[asked] = len(self._asked)
            self._asked.append(asked)
            self._values.append([])
            self._of_host.append({})
        return self._numbers[asked]

    def kind(self, number: int, host: Host) -> int:
        """What stands for the values that a host has of these names: the same for hosts with the same."""
        known = self._of_host[number]
        if host.name not in known:
            mine, all_values = _of(host.vars, self._asked[number]), self._values[number]
            same = (place for place, values in enumerate(all_values) if _same(mine, values))
            known[host.name] = next(same, len(all_values))
            if known[host.name] == len(all_values):
                all_values.append(mine)
        return known[host.name]


class Fine:
    """The hosts that a task is fine on.

    Args:
        kinds: Of the hosts.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._known: dict[int, set[int]] = {}

    def add(self, host: Host, asked: tuple[str, ...]) -> None:
        """One, and the names that were looked up in its variables."""
        number = self._kinds.number(asked)
        self._known.setdefault(number, set()).add(self._kinds.kind(number, host))

    def has(self, host: Host) -> bool:
        """Whether one of them would have given the same answers."""
        return any(self._kinds.kind(number, host) in same for number, same in self._known.items())


def _of(values: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    return [values.get(name, _NOTHING) for name in names]


def _same(some: list[Any], others: list[Any]) -> bool:
    """Whether values are equal, and written equally: 1 is not true, and not 1.0."""
    if some != others:
        return False
    pairs = zip(some, others, strict=True)
    return all(one is other or repr(one) == repr(other) for one, other in pairs)
