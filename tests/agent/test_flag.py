"""What happens once is seen by everybody who waits for it, before and after."""

from __future__ import annotations

import threading
import time

from stoker.agent.context import Flag


def test_who_waits_is_woken_and_who_comes_later_need_not_wait() -> None:
    flag = Flag()
    seen: list[bool] = []
    waiting = [threading.Thread(target=lambda: seen.append(flag.wait())) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert not flag.is_set()
    assert not flag.wait(0)
    assert not flag.wait(-1)
    flag.set()
    flag.set()
    for thread in waiting:
        thread.join(5)
    assert seen == [True] * 3
    assert flag.is_set()
    assert flag.wait()
    assert flag.wait(0)


def test_a_wait_ends_in_time() -> None:
    flag, begin = Flag(), time.monotonic()
    assert not flag.wait(0.05)
    assert 0.04 < time.monotonic() - begin < 5
