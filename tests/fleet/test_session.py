"""What a session says that it is doing."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.config.inventories.inventory import Host
from stoker.fleet.books.verbs import VERBS
from stoker.fleet.project import Project
from stoker.fleet.session import Session
from stoker.reach.client import Agent
from tests.fleet.test_verbs import Heard, _do, project

__all__ = ["project"]


class _Unheard:
    """In an agent's place where nothing is asked of it."""


@pytest.mark.parametrize(("doing", "told"), [("", "at work"), ("a task of a book", "a task of a book")])
def test_once_connected_it_does_not_go_on_connecting(doing: str, told: str) -> None:
    said: list[str] = []
    agent: Agent = _Unheard()  # type: ignore[assignment]
    host = Host("a", {}, (), "hosts.yml:1")
    session = Session(host, lambda _: agent, lambda _, event: said.append(event["name"]))
    session.doing = doing
    assert session.agent is session.agent is agent
    assert said == ["connecting", told]


def test_who_follows_logs_is_told_how_that_ends(project: Project) -> None:
    session = Heard({}, {"logs": {"logs": []}})
    for follow, told in ((False, ""), (True, "following (Ctrl-C ends it)")):
        given: dict[str, Any] = {"follow": follow}
        _do(project, VERBS["logs"], session, **given)
        assert session.doing == told
