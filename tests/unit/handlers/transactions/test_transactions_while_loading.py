"""DescribeTransactions and ListTransactions while a coordinator loads its log, and afterwards."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from headrace.coordinators.codec.transactions import TransactionLogValue, transaction_log_key, transaction_log_value
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.runtime.runtime import CoordinatorRuntime
from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.coordinators.txn.core.shard import TransactionSettings
from headrace.coordinators.txn.producer_ids import ProducerIds
from headrace.handlers.dispatch.authorization import OPEN
from headrace.handlers.dispatch.forwarded_requests import serve_forwarded
from headrace.handlers.dispatch.table import HandlerTable
from headrace.handlers.transactions.describe_transactions import DescribeTransactions
from headrace.handlers.transactions.list_transactions import ListTransactions
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TRANSACTION_STATE_TOPIC
from headrace.records.builder import Record, build_writable_batch
from headrace.security.principal import ANONYMOUS
from headrace.wire import codec
from tests.support.coordinator_logs import MemoryLog

LOADING = ErrorCode.coordinator_load_in_progress
DESCRIBE, LIST = 65, 66
EMPTY = 0


def test_while_loading_describe_fails_for_each_id_and_list_as_a_whole() -> None:
    async def play() -> None:
        log = MemoryLog()
        known = TransactionLogValue(7, 0, 60_000, EMPTY, None, 1, 1)
        value = transaction_log_value(known, flexible=True)
        log.append(build_writable_batch([Record(transaction_log_key("a"), value)]), 1)
        partitions = SimpleNamespace(get=lambda topic, index: log)
        around = SimpleNamespace(partitions=partitions, view=None, broker_id=1)
        nobody = cast("Any", None)
        topic = InternalTopic(TRANSACTION_STATE_TOPIC, 1)
        coordinator = TransactionCoordinator(
            cast("Any", around), ProducerIds(nobody), nobody, nobody, TransactionSettings(), topic
        )
        coordinator.runtime = CoordinatorRuntime(
            topic,
            cast("Any", partitions),
            1,
            coordinator._make_shard,
            make_log=lambda partition, _: cast("Any", partition),
        )
        table = HandlerTable([DescribeTransactions(coordinator), ListTransactions(coordinator)])

        async def answer(api_key: int, version: int, body: dict[str, Any]) -> Any:
            # Without the dispatcher's task: the first questions come before the loading has its turn of the loop.
            frame = bytes(codec.encode_request(api_key, version, 0, "me", body)[4:])
            served = await serve_forwarded(
                table,
                frame,
                {DESCRIBE, LIST},
                authorization=OPEN,
                host="",
                listener="",
                principal=ANONYMOUS,
                now_ms=0,
            )
            return codec.read_response(api_key, version, served)[1]

        async def errors() -> tuple[list[int], set[int]]:
            described = await answer(DESCRIBE, 0, {"transactional_ids": ["a", "b"]})
            filters = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
            listed = [
                await answer(LIST, version, {**filters, "transactional_id_pattern": None}) for version in range(3)
            ]
            names = {each.transactional_id for answered in listed for each in answered.transaction_states}
            assert names == (set() if coordinator.runtime.loading else {"a"})
            return [each.error_code for each in described.transaction_states], {each.error_code for each in listed}

        coordinator.runtime.elect(0, leader_epoch=5)
        assert await errors() == ([LOADING, LOADING], {LOADING})
        await coordinator.runtime.wait_loaded()
        assert await errors() == ([ErrorCode.none, ErrorCode.transactional_id_not_found], {ErrorCode.none})
        coordinator.close()

    asyncio.run(play())
