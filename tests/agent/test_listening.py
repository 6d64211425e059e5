"""Whether anybody listens at a launch's place is known without a look at every process."""

from __future__ import annotations

import socket

import pytest

from stoker.agent.asking.gate import NotYetError
from stoker.agent.starting.listening import Place


def test_it_is_cheaply_known_whether_anybody_listens() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        place = Place({"bind": "127.0.0.1", "port": server.getsockname()[1]})
        with pytest.raises(NotYetError, match="nobody listens"):
            place.must_be_taken()
        server.listen()
        place.must_be_taken()
