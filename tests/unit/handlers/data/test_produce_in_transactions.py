"""Produce in a transaction: what happens while the coordinator is asked decides whether a batch is appended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.view import ClusterView
from headrace.handlers.data.current_leaders import Leaders
from headrace.handlers.data.produce import Produce
from headrace.handlers.data.transaction_guard import TransactionGuard
from headrace.handlers.dispatch.authorization import UNRESTRICTED
from headrace.handlers.dispatch.context import RequestContext
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.net.replies import Pending
from headrace.records.control import build_end_txn_marker
from headrace.replication.core.leader import not_led_here
from headrace.replication.partition import Partition
from headrace.storage.log import AppendOrigin
from headrace.wire import codec
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader
from headrace.wire.produce import ProduceRequest
from tests.support.logs import NOW_MS, a_batch, open_at
from tests.unit.replication.test_partition import ALONE, FOLLOWED, Broker

ELSEWHERE = replace(FOLLOWED, leader_epoch=ALONE.leader_epoch + 1)
LED_AGAIN = replace(ALONE, leader_epoch=ALONE.leader_epoch + 2)
PRODUCER, EPOCH = 7, 0
CLASSIC, ADDS = 9, 12  # versions of Produce: the client adds its partitions, or the leader does


class Coordinator:
    """Answers when `meanwhile` has run, as one on a slow broker. `added` has what belongs to the transaction."""

    def __init__(self) -> None:
        self.added: set[TopicPartition] = set()
        self.verifies = True
        self.meanwhile: Callable[[], object] = lambda: None

    def is_required(self, *, add: bool) -> bool:
        return add or self.verifies

    async def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition], *, add: bool
    ) -> Mapping[TopicPartition, ErrorCode]:
        if add:
            self.added.update(partitions)
        codes = {p: ErrorCode.none if p in self.added else ErrorCode.invalid_txn_state for p in partitions}
        self.meanwhile()
        return codes


class Setting:
    def __init__(self, directory: Path, opened: ExitStack) -> None:
        self.coordinator = Coordinator()
        self.partitions = []
        for index in range(2):
            log = open_at(directory / f"t-{index}")
            opened.callback(log.close, clean=False)
            partition = Partition("t", index, None, log, Broker())
            partition.update(ALONE)
            self.partitions.append(partition)
        known: Any = self
        nothing: Any = SimpleNamespace(topics=())
        self.handler = Produce(known, Leaders(ClusterView()), TransactionGuard(known, self.coordinator), nothing)

    def led(self, topic: str, index: int) -> Partition:
        if self.partitions[index].isr is None:
            raise not_led_here(topic, index, 2)
        return self.partitions[index]

    def produce(self, version: int, *batches: tuple[int, int]) -> dict[int, ErrorCode]:
        """The errors of batches of (partition, sequence) in one request."""
        parts: Any = [
            (index, memoryview(a_batch(producer=(PRODUCER, EPOCH, sequence), transactional=True)))
            for index, sequence in batches
        ]
        header = RequestHeader(int(ApiKey.PRODUCE), version, 1, "test")
        context = RequestContext(header, "", "", "", UNRESTRICTED, NOW_MS)

        async def serve() -> Any:
            reply = self.handler.serve(ProduceRequest("tx", 1, 1000, [("t", parts)], 0), context)
            return await reply if isinstance(reply, Pending) else reply

        body = codec.read_response(ApiKey.PRODUCE, version, bytes(asyncio.run(serve()))[4:])[1]
        return {p.index: ErrorCode(p.error_code) for p in body.responses[0].partition_responses}

    def end(self, index: int, *, commit: bool = False) -> None:
        marker = build_end_txn_marker(commit, 0, PRODUCER, EPOCH, NOW_MS)
        self.partitions[index].append(memoryview(bytearray(marker)), origin=AppendOrigin.COORDINATOR, now_ms=NOW_MS)

    def add(self, *indexes: int) -> None:
        self.coordinator.added.update(TopicPartition("t", index) for index in indexes)


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    with ExitStack() as opened:
        yield Setting(tmp_path, opened)


def test_a_partition_that_is_led_here_too_late_gets_no_batch(setting: Setting) -> None:
    """The coordinator has not added it, so no marker would ever end its transaction."""
    late = setting.partitions[1]
    late.update(ELSEWHERE)
    assert not late.is_leader
    setting.coordinator.meanwhile = lambda: late.update(LED_AGAIN)
    found = setting.produce(ADDS, (0, 0), (1, 0))
    assert late.is_leader
    assert found == {0: ErrorCode.none, 1: ErrorCode.not_leader_or_follower}
    assert (late.log_end_offset, late.last_stable_offset) == (0, late.high_watermark)


def test_a_batch_does_not_reopen_a_transaction_that_ended_during_a_verification(setting: Setting) -> None:
    """The client gave up on the request and aborted, while another partition of it was verified."""
    setting.add(0, 1)
    assert setting.produce(CLASSIC, (0, 0)) == {0: ErrorCode.none}
    setting.coordinator.meanwhile = lambda: setting.end(0)
    found = setting.produce(CLASSIC, (0, 1), (1, 0))
    assert found == {0: ErrorCode.invalid_txn_state, 1: ErrorCode.none}
    partition = setting.partitions[0]
    assert partition.last_stable_offset == partition.high_watermark == 2, "the first batch and its marker"


@pytest.mark.parametrize("version", [CLASSIC, ADDS])
def test_a_marker_during_its_own_verification_refuses_a_batch(setting: Setting, version: int) -> None:
    setting.add(0)
    assert setting.produce(version, (0, 0)) == {0: ErrorCode.none}
    setting.end(0)
    # The first append of the next transaction; a marker of version 2 has a higher epoch, so it ends nothing here.
    setting.coordinator.meanwhile = lambda: setting.end(0)
    expected = ErrorCode.invalid_txn_state if version == CLASSIC else ErrorCode.none
    assert setting.produce(version, (0, 1)) == {0: expected}


def test_a_repetition_is_answered_although_its_transaction_is_over(setting: Setting) -> None:
    setting.add(0, 1)
    assert setting.produce(CLASSIC, (0, 0)) == {0: ErrorCode.none}
    setting.coordinator.meanwhile = lambda: setting.end(0)
    assert setting.produce(CLASSIC, (0, 0), (1, 0)) == {0: ErrorCode.none, 1: ErrorCode.none}
    assert setting.partitions[0].log_end_offset == 2


def test_without_verification_old_clients_are_not_asked_and_new_ones_are(setting: Setting) -> None:
    setting.coordinator.verifies = False
    assert setting.produce(CLASSIC, (0, 0)) == {0: ErrorCode.none}
    assert not setting.coordinator.added
    assert setting.produce(ADDS, (1, 0)) == {1: ErrorCode.none}
    assert setting.coordinator.added == {TopicPartition("t", 1)}
