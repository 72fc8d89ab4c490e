"""A consumer with a backlog does not wait for `fetch.min.bytes`: a limit cut what it reads, not the end of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.connection import Connection
from headrace.testing.in_process import RunningBroker, broker
from headrace.wire.apis import ApiKey
from tests.support.clock import Stopwatch
from tests.support.logs import NOW_MS, a_batch
from tests.support.names import unique

LONGEST_WAIT_S = 20
BATCH = a_batch(1, value=b"v" * 1000)
SIZE = len(BATCH)


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as started:
        yield started


@pytest.mark.parametrize(
    ("min_bytes", "partition_max_bytes", "max_bytes", "found"),
    [
        (5 * SIZE - 1, 5 * SIZE - 1, 1 << 20, [4]),
        (5 * SIZE - 1, 1 << 20, 5 * SIZE - 1, [4]),
        (8 * SIZE - 1, 4 * SIZE, 8 * SIZE - 1, [4, 3]),
        (4 * SIZE + 9, 4 * SIZE, 4 * SIZE + 9, [4, 0]),
        (7 * SIZE, 1 << 20, 1 << 20, [6]),
    ],
    ids=["the limit of a partition", "the limit of a fetch", "two partitions", "no room", "the end of a segment"],
)
@pytest.mark.parametrize("keeps_session", [True, False])
def test_a_backlog_is_no_reason_to_wait(
    running: RunningBroker,
    keeps_session: bool,
    min_bytes: int,
    partition_max_bytes: int,
    max_bytes: int,
    found: list[int],
) -> None:
    topic = unique("backlog")
    running.create_topic(topic, partitions=len(found))

    def fill() -> None:
        for index in range(len(found)):
            partition = running.broker.parts.partitions.led(topic, index)
            for at in range(9):
                if at == 6:
                    partition.log.roll(now_ms=NOW_MS)
                partition.append(memoryview(bytearray(BATCH)), now_ms=NOW_MS)

    running.call(fill)
    wanted = {"current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1}
    limits = {"partition_max_bytes": partition_max_bytes}
    body: dict[str, Any] = {
        "replica_id": -1,
        "max_wait": LONGEST_WAIT_S * 1000,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": 0 if keeps_session else -1,
        "topics": [
            {"topic": topic, "partitions": [{"partition": index, **wanted, **limits} for index in range(len(found))]}
        ],
        "forgotten_topics_data": [],
        "rack_id": "",
    }

    async def sizes() -> list[int]:
        connection = await Connection.open(running.host, running.port, timeout=10)
        answer = await connection.request(ApiKey.FETCH, body, version=11, timeout=LONGEST_WAIT_S + 10)
        await connection.close()
        return [len(p.records or b"") // SIZE for t in answer.responses for p in t.partitions]

    watch = Stopwatch()
    assert asyncio.run(sizes()) == found
    watch.at_most(LONGEST_WAIT_S / 2, because="there are more records behind those in the answer")
