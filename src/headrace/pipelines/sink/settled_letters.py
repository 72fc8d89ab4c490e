"""Up to where the dead letters of a topic are settled: retried, edited or dropped. Every later letter waits.

The position of a partition is the offset after its last settled letter. It is an entry in the topic `__sink_ledger`,
under the key `headrace-dlq.<topic>.<id>.<partition>`, written in the transaction that settles the letters. The id is
that of the topic, so the letters of a topic that was created again wait.

The transaction also commits the offset for the group `headrace-dlq.<topic>`, which was the only place in earlier
versions. Brokers delete offsets of groups without members after `offsets.retention.minutes`, and a person may delete
the group. Letters that are still in the topic would then be settled a second time. The larger of the two positions
counts, so positions of earlier versions stay valid. See docs/adr/0019.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.blocking.client import BlockingClient, TopicPartitionPair
from headrace.client.blocking.produce import Transaction
from headrace.kernel.errors import ErrorCode, Fault
from headrace.pipelines.sink.ledger import LEDGER_TOPIC, LedgerView, create_ledger, entry, partition_of
from headrace.records.builder import Record


def group_of(topic: str) -> str:
    return f"headrace-dlq.{topic}"


class SettledLetters:
    """`writes`: whether the caller settles letters. Then a ledger that it may not read is an error. A caller that only
    shows letters makes do with the group."""

    def __init__(self, client: BlockingClient, *, writes: bool = False) -> None:
        self._client, self._writes = client, writes
        self._views: dict[TopicPartitionPair, LedgerView] = {}
        if writes:
            create_ledger(client)

    def positions(
        self, pairs: Sequence[TopicPartitionPair], topic_id: str, *, require_stable: bool = True
    ) -> dict[TopicPartitionPair, int]:
        """The positions of partitions of one topic. A caller that writes must have begun the transaction of the
        partition: then the end of every earlier one is known."""
        if not pairs:
            return {}
        committed = self._client.committed_offsets(group_of(pairs[0][0]), pairs, require_stable=require_stable)
        # Earlier versions committed without the id.
        found = {pair: offset for pair, (offset, noted) in committed.items() if noted in ("", topic_id)}
        return {pair: max(found.get(pair, 0), self._in_ledger(_key(pair, topic_id))) for pair in pairs}

    def _in_ledger(self, key: bytes) -> int:
        partition = partition_of(key)
        try:
            if LEDGER_TOPIC not in self._client.topics([LEDGER_TOPIC]):
                return 0
            view = self._views.setdefault(partition, LedgerView(partition))
            view.update(self._client)
        except Fault as fault:
            if self._writes or fault.code is not ErrorCode.topic_authorization_failed:
                raise
            return 0
        return view.last_number(key) or 0

    @staticmethod
    def entry(pair: TopicPartitionPair, topic_id: str, position: int, count: int) -> tuple[TopicPartitionPair, Record]:
        """The record that the transaction writes, and its partition."""
        key = _key(pair, topic_id)
        return partition_of(key), entry(key, position, count)

    @staticmethod
    def commit(transaction: Transaction, pair: TopicPartitionPair, topic_id: str, position: int) -> None:
        transaction.commit(group_of(pair[0]), {pair: (position, topic_id)})


def _key(pair: TopicPartitionPair, topic_id: str) -> bytes:
    return f"{group_of(pair[0])}.{topic_id}.{pair[1]}".encode()
