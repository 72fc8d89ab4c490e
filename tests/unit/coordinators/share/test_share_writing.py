"""How acknowledgements become durable: one write at a time, retried while a coordinator moves, or reverted."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any, cast

import pytest

from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_state import ShareKey, StateBatch
from headrace.coordinators.share import persister as persister_module
from headrace.coordinators.share.core.acquisition import AcquireRequest, LogBatch
from headrace.coordinators.share.core.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    Changes,
    SharePartition,
    ShareProgress,
)
from headrace.coordinators.share.outbox import Outbox
from headrace.coordinators.share.persister import Persister
from headrace.coordinators.share.state_coordinator import ShareStateCoordinator
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import SHARE_GROUP_STATE_TOPIC

KEY = ShareKey("g", uuid.UUID(int=7), 0)


class Coordinator:
    """Writes or refuses, as the test sets it."""

    def __init__(self) -> None:
        self.written: list[tuple[ShareProgress, list[StateBatch]]] = []
        self.may_go_on = asyncio.Event()
        self.refusal: ErrorCode | None = None

    async def write(self, standing: ShareProgress, batches: Sequence[StateBatch]) -> None:
        await self.may_go_on.wait()
        if self.refusal is not None:
            raise Refused(self.refusal)
        self.written.append((standing, list(batches)))


def accepted(core: SharePartition, first: int, last: int) -> Changes:
    return core.acknowledge("a", [Acknowledgement(first, last, [AcknowledgeType.ACCEPT])], 0)


def share_partition_of_ten() -> SharePartition:
    core = SharePartition(0)
    core.acquire(AcquireRequest("a", 500, 500), 0, [LogBatch(0, 9)], 0)
    return core


def test_changes_during_a_write_share_the_next_write() -> None:
    async def play() -> None:
        core, coordinator = share_partition_of_ten(), Coordinator()
        outbox = Outbox("q", core, coordinator.write, lambda: 0)
        said = [outbox.put(accepted(core, 5, 9))]
        await asyncio.sleep(0)
        said += [outbox.put(accepted(core, 3, 4)), outbox.put(accepted(core, 0, 2))]
        coordinator.may_go_on.set()
        await asyncio.gather(*said)
        assert coordinator.written == [
            (ShareProgress(0, 5), [StateBatch(5, 9, 2, 1)]),
            (ShareProgress(10, 0), [StateBatch(3, 4, 2, 1), StateBatch(0, 2, 2, 1)]),
        ]
        assert core.start_offset == 10 and outbox.is_empty
        assert outbox.put(Changes(None, [])).done(), "nothing to write"

    asyncio.run(play())


def test_a_failed_write_reverts_the_acknowledgement() -> None:
    async def play() -> None:
        core, coordinator = share_partition_of_ten(), Coordinator()
        outbox = Outbox("q", core, coordinator.write, lambda: 0)
        coordinator.may_go_on.set()
        coordinator.refusal = ErrorCode.coordinator_not_available
        with pytest.raises(Refused):
            await outbox.put(accepted(core, 0, 9))
        assert core.acquire(AcquireRequest("b", 500, 500), 0, [LogBatch(0, 9)], 0) == [], "it is still with the first"
        coordinator.refusal = None
        await outbox.put(accepted(core, 0, 9))
        assert core.start_offset == 10

    asyncio.run(play())


class Moving:
    """The coordinator of this broker, for a while not the one; an image with its topic."""

    def __init__(self, *refusals: ErrorCode) -> None:
        self.refusals = list(refusals)
        self.writes = 0
        self.current = self
        self.topics = {SHARE_GROUP_STATE_TOPIC: self}
        self.partitions = [self]
        self.leader = 1

    async def write(self, *state: Any) -> None:
        self.writes += 1
        if self.refusals:
            raise Refused(self.refusals.pop(0))


@pytest.mark.parametrize(
    ("refusals", "writes", "told"),
    [
        ([ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress], 3, None),
        ([ErrorCode.fenced_leader_epoch], 1, ErrorCode.fenced_leader_epoch),
        ([ErrorCode.coordinator_not_available] * 99, 4, ErrorCode.coordinator_not_available),
    ],
)
def test_the_persister_finds_a_moved_coordinator(
    refusals: list[ErrorCode], writes: int, told: ErrorCode | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persister_module, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(persister_module, "_PATIENCE_SECONDS", 0.1 if len(refusals) > writes else 60)
    moving = Moving(*refusals)

    async def is_there(topic: str) -> bool:
        return True

    async def play() -> None:
        local, view = cast("ShareStateCoordinator", moving), cast("ClusterView", moving)
        await Persister(local, view, 1, cast("Any", None), is_there).write(KEY, 0, 0, 0, 0, [])

    if told is None:
        asyncio.run(play())
    else:
        with pytest.raises(Refused) as refused:
            asyncio.run(play())
        assert refused.value.code is told
    assert moving.writes == writes or (len(refusals) > writes and 1 < moving.writes <= writes)
