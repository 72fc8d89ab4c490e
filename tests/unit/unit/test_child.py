"""When the supervisor of a unit starts a dead process again."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket

from headrace.unit.child import Child, LaunchedProcess, next_pause_s
from tests.support.clock import PATIENCE_S


def pauses(lives_s: list[float], *, has_served: bool) -> list[float]:
    found: list[float] = []
    for life_s in lives_s:
        found.append(next_pause_s(found[-1] if found else None, life_s, has_served=has_served))
    return found


def test_a_process_that_served_starts_again_within_half_a_second_however_often_it_dies() -> None:
    assert pauses([3.0] * 5, has_served=True) == [0.0, 0.2, 0.4, 0.5, 0.5]


def test_a_process_that_cannot_start_waits_longer_each_time() -> None:
    assert pauses([1.0] * 9, has_served=False) == [0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_after_a_long_life_a_process_starts_again_at_once() -> None:
    assert pauses([1.0, 1.0, 11.0, 1.0], has_served=True) == [0.0, 0.2, 0.0, 0.2]


class PlayedProcess:
    """Says that it serves, and ends when it gets a signal."""

    pid = 0

    def __init__(self, control: int) -> None:
        self._control = socket.socket(fileno=os.dup(control))
        self._control.send(json.dumps({"serves": ["localhost:9092"], "metrics_port": 0}).encode() + b"\n")
        self._ended = asyncio.Event()
        self.returncode: int | None = None

    async def wait(self) -> int:
        await self._ended.wait()
        return 0

    def send_signal(self, signal: int, /) -> None:
        self._control.close()
        self.returncode = 0
        self._ended.set()


def test_a_process_that_could_not_be_started_again_is_started_later() -> None:
    launched: list[PlayedProcess] = []
    refused: list[OSError] = []

    async def launch(descriptors: list[int]) -> LaunchedProcess:
        if launched and not refused:
            refused.append(OSError(errno.EAGAIN, "no more processes"))
            raise refused[0]
        launched.append(PlayedProcess(descriptors[0]))
        return launched[-1]

    async def scenario() -> None:
        child = Child(1, {}, quiet=True, store_socket=None, on_message=lambda _: None, launch=launch)
        async with asyncio.timeout(PATIENCE_S):
            await child.serving.wait()
            child.serving.clear()
            launched[0].send_signal(9)
            await child.serving.wait()
        child.terminate()
        assert await child.stopped() == 0

    asyncio.run(scenario())
    assert len(refused) == 1
    assert len(launched) == 2
