"""Sends the records of a request to partitions. Returns for each record its partition and offset, or its problem.

A record without a partition goes to the partition of its key, as with Java producers. Records without a key of one
request go to one partition, and the next request takes the next: this gives large batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.client.cluster_client import ClusterClient
from headrace.client.record_sender import RecordSender
from headrace.http.call import partitions_of
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition, partition_for_key
from headrace.records.builder import Record
from headrace.web.errors import Problem, problem_of


@dataclass(frozen=True, slots=True)
class Delivered:
    partition: int
    offset: int


class TopicProducer:
    """Producer of one caller."""

    def __init__(self, client: ClusterClient) -> None:
        self.sender = RecordSender(client)
        self._turn = 0

    async def partitions(self, topic: str) -> int:
        """The number of partitions. Raises Fault."""
        return await partitions_of(self.sender.client, topic)

    async def send(self, topic: str, records: Sequence[tuple[Record, int | None]]) -> list[Delivered | Problem]:
        """One outcome for each record, in order. Raises Fault if the topic is unknown."""
        count = await self.partitions(topic)
        self._turn += 1
        keyless = self._turn % count
        outcomes: list[Delivered | Problem | None] = [None] * len(records)
        by_partition: dict[int, list[int]] = {}
        for at, (record, wanted) in enumerate(records):
            if wanted is None:
                wanted = keyless if record.key is None else partition_for_key(record.key, count)
            elif wanted >= count:
                outcomes[at] = Problem(
                    404, 40402, f"partition {wanted} does not exist: topic {topic!r} has partitions 0 to {count - 1}"
                )
                continue
            by_partition.setdefault(wanted, []).append(at)

        async def to_partition(partition: int, places: list[int]) -> None:
            sent = [records[at][0] for at in places]
            answers = await self.sender.send(TopicPartition(topic, partition), sent)
            for at, answer in zip(places, answers, strict=True):
                outcomes[at] = problem_of(answer) if isinstance(answer, Fault) else Delivered(partition, answer)

        await asyncio.gather(*(to_partition(partition, places) for partition, places in by_partition.items()))
        return [outcome for outcome in outcomes if outcome is not None]

    async def close(self) -> None:
        await self.sender.close()
