"""Closing many logs: they are closed in parallel, and the faults are returned."""

from __future__ import annotations

import threading
from typing import Any

from headrace.kernel.errors import StorageFault
from headrace.storage.close import THREADS, close_logs


def test_logs_are_closed_in_parallel() -> None:
    together = threading.Barrier(THREADS)

    class WaitsForOthers:
        def close(self, *, clean: bool) -> None:
            together.wait(timeout=30)

    logs: list[Any] = [WaitsForOthers() for _ in range(2 * THREADS)]
    assert close_logs(logs, clean=True) == []


def test_fault_of_one_log_is_returned_and_the_others_are_closed() -> None:
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
