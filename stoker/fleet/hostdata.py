"""What a host told, read with care: where it is not as the contract has it, the host failed, not the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stoker.errors import HostFailed, InputError


@contextmanager
def reading(host: str, what: str) -> Iterator[None]:
    """A block that reads nothing but what a host told.

    Args:
        host: The host.
        what: What is read, for the message.

    Raises:
        HostFailed: ``bad-result``: it cannot be used.
    """
    try:
        yield
    except (InputError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise HostFailed(
            f"{what} cannot be used: {said}",
            host=host,
            kind="bad-result",
            next_step=f"see what answers there: inv ping --host {host}",
        ) from error
