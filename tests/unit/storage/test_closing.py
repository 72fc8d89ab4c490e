"""A broker of many logs stops in time: they wait for the disk together, and a fault of one is told."""

from __future__ import annotations

import threading
from typing import Any

from headrace.kernel.errors import StorageFault
from headrace.storage.close import THREADS, close_logs


def test_logs_wait_for_the_disk_together() -> None:
    together = threading.Barrier(THREADS)

    class WaitsForOthers:
        def close(self, *, clean: bool) -> None:
            together.wait(timeout=30)

    logs: list[Any] = [WaitsForOthers() for _ in range(2 * THREADS)]
    assert close_logs(logs, clean=True) == []


def test_a_fault_of_one_log_is_told_and_the_others_are_closed() -> None:
    closed: list[bool] = []

    class Fails:
        def close(self, *, clean: bool) -> None:
            raise StorageFault("the disk is gone")

    class Closes:
        def close(self, *, clean: bool) -> None:
            closed.append(clean)

    logs: list[Any] = [Closes(), Fails(), Closes()]
    assert [fault.message for fault in close_logs(logs, clean=False)] == ["the disk is gone"]
    assert closed == [False, False]
