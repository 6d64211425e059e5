"""Where a launch was when Ctrl-C came is told by what the host said, and by nothing else."""

from __future__ import annotations

from typing import Any, cast

import pytest

from stoker.errors import HostFailed
from stoker.fleet.aftermath import of_launch
from stoker.fleet.job import Job
from tests.plan.conftest import dumping, plan_of

NO_JOB = cast(Job, None)  # an interrupted launch is told without another look at the host


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ({}, "interrupted before anything was ended"),
        ({"previous": None}, "goes on loading on node174"),
        ({"unfinished": True}, "is still being replaced on node174"),
    ],
)
def test_an_interrupted_launch_says_how_far_it_went(detail: dict[str, Any], told: str) -> None:
    error = HostFailed("who knows what it finishes", host="node174", kind="cancelled", detail=detail)
    assert told in of_launch(NO_JOB, plan_of(dumping()), error).what
