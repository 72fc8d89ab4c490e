"""Asks the brokers for the partitions of a query, topic ids, and the offsets of the specs in `offsets`; divides batches
into tasks.

Runs on the driver, in the Python process that Spark keeps for a query. One `Planner` per query.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, READ_UNCOMMITTED, BlockingClient, TopicMetadata
from headrace.client.blocking.flow_commands import TOPIC as COMMANDS_TOPIC
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import uuid_to_text
from headrace.pipelines.errors import DataLossError, OptionError, PipelineError
from headrace.pipelines.flows.progress import PROGRESS_TOPIC
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.sink.ledger import LEDGER_TOPIC
from headrace.pipelines.source.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtTimestamp,
    Earliest,
    Latest,
    OffsetRange,
    OffsetSpec,
    Specific,
    TopicPartitionPair,
    check_covers,
    moves_with_retention,
    split_ranges,
)
from headrace.pipelines.source.stream_state import NOTES_TOPIC

# If its pattern matched these topics, a query would read its own output in every batch.
_WRITTEN_BY_STREAMS: Final = (PROGRESS_TOPIC, COMMANDS_TOPIC, NOTES_TOPIC, LEDGER_TOPIC)


def topic_ids(client: BlockingClient, topics: Iterable[str]) -> dict[str, str]:
    """Ids of the existing topics, if the brokers support topic ids."""
    return _ids_of(client.topics(topics))


def _ids_of(topics: Mapping[str, TopicMetadata]) -> dict[str, str]:
    return {name: uuid_to_text(topic.topic_id) for name, topic in topics.items() if topic.topic_id is not None}


@dataclass(frozen=True)
class Found:
    """The current partitions of a query."""

    partitions: tuple[TopicPartitionPair, ...]
    topic_ids: dict[str, str]


@dataclass(frozen=True)
class Resolved:
    """The offsets of a spec now."""

    offsets: dict[TopicPartitionPair, int]
    # Partitions at their end. The end moves: the same spec gives another offset later.
    at_end: frozenset[TopicPartitionPair] = frozenset()


class Planner:
    def __init__(self, options: SourceOptions, client: BlockingClient) -> None:
        self.options, self.client = options, client

    def find(self) -> Found:
        """The current partitions. A missing topic is an error if the query names it. A pattern may match no topic
        yet."""
        wanted = self.options.subscription
        try:
            # The first connection is not retried: a wrong address fails at once, not after the time allowed for
            # elections.
            self.client.any_connection()
            if wanted.pattern is not None:
                whole = re.compile(wanted.pattern)
                topics = {
                    name: topic
                    for name, topic in self.client.topics(None).items()
                    if whole.fullmatch(name) and not topic.is_internal and name not in _WRITTEN_BY_STREAMS
                }
            else:
                names = wanted.topics or tuple(dict.fromkeys(topic for topic, _ in wanted.partitions))
                topics = self.client.topics(names)
                if missing := [name for name in names if name not in topics]:
                    raise PipelineError(
                        f"topic {', '.join(map(repr, missing))} does not exist on {self.options.cluster.bootstrap}: "
                        "create it first"
                    )
        except Fault as fault:
            raise PipelineError(fault.message or fault.code.name) from fault
        existing = {(name, index) for name, topic in topics.items() for index in topic.partitions}
        ids = _ids_of(topics)
        if not wanted.partitions:
            return Found(tuple(sorted(existing)), ids)
        if absent := sorted(set(wanted.partitions) - existing):
            topic, index = absent[0]
            raise PipelineError(f"assign: partition {topic}-{index} does not exist")
        return Found(tuple(wanted.partitions), ids)

    def earliest(self, partitions: tuple[TopicPartitionPair, ...]) -> dict[TopicPartitionPair, int]:
        return self._list(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: tuple[TopicPartitionPair, ...]) -> dict[TopicPartitionPair, int]:
        """Log end offsets; with read_committed the last stable offsets."""
        return self._list(dict.fromkeys(partitions, LATEST))

    def pieces(
        self,
        start: Mapping[TopicPartitionPair, int],
        end: Mapping[TopicPartitionPair, int],
        *,
        is_first: bool,
        created_again: Collection[str] = (),
    ) -> list[OffsetRange]:
        """The ranges of the tasks of one batch, in the order of the sink's slots. A repeated batch must have the same
        rows in the same slots. If `is_first`, the start is not from the journal, and retention may have moved it."""
        asked = tuple(
            pair
            for pair, offset in end.items()
            # A partition that an earlier version met in this batch, one that is shorter than before, or a recreated
            # topic. In the first batch the start may have moved past the end.
            if pair not in start or (offset < start[pair] and not is_first) or pair[0] in created_again
        )
        starts = {**start, **(self.earliest(asked) if asked else {})}
        # A range keeps its slot if it became empty since the batch was first planned. Without this, the slots after it
        # would move up, and the sink would skip their rows. Ranges that are split depend on the start, too: the reader
        # puts it into the journal before it reads them.
        kept = {
            pair
            for pair, offset in end.items()
            if offset > 0 and (pair in asked or (is_first and moves_with_retention(self.options.starting, pair)))
        }
        return split_ranges(
            [OffsetRange(*pair, min(starts[pair], offset), offset) for pair, offset in end.items()],
            min_partitions=self.options.min_partitions,
            max_records=self.options.max_records_per_partition,
            kept=kept,
        )

    def high_watermarks(self, partitions: tuple[TopicPartitionPair, ...]) -> dict[TopicPartitionPair, int]:
        """Where the records end, also those of open transactions."""
        return self._list(dict.fromkeys(partitions, LATEST), isolation=READ_UNCOMMITTED)

    def end_of_shorter_log(self, pair: TopicPartitionPair, end: int, fault: Fault) -> int:
        """The end of a log that has become shorter than a range, for example by an unclean election. A leader that does
        not serve is no loss: without an error the batch would commit without records that exist."""
        # The last stable offset may stay below the range for as long as a transaction is open: its records exist.
        log_end = self.high_watermarks((pair,))[pair]
        if log_end >= end:
            raise PipelineError(
                f"{fault.message}. No record is lost: start the query again when the leader of the partition serves "
                "it, or raise kafkaConsumer.pollTimeoutMs"
            ) from fault
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{fault.message}, and {pair[0]}-{pair[1]} now ends at {log_end}; set failOnDataLoss=false to go on "
                "without the records after it"
            ) from fault
        return log_end

    def _list(
        self, asked: Mapping[TopicPartitionPair, int], *, isolation: int | None = None
    ) -> dict[TopicPartitionPair, int]:
        chosen = self.options.isolation if isolation is None else isolation
        try:
            return self.client.list_offsets(asked, isolation=chosen)
        except Fault as fault:
            if fault.code is ErrorCode.unknown_topic_or_partition:
                raise PipelineError(f"{fault.message}: was its topic deleted?") from fault
            raise PipelineError(fault.message or fault.code.name) from fault

    def resolve(
        self, spec: OffsetSpec, partitions: tuple[TopicPartitionPair, ...], *, ending: bool
    ) -> dict[TopicPartitionPair, int]:
        return self.resolved(spec, partitions, ending=ending).offsets

    def resolved(self, spec: OffsetSpec, partitions: tuple[TopicPartitionPair, ...], *, ending: bool) -> Resolved:
        match spec:
            case Earliest():
                return Resolved(self.earliest(partitions))
            case Latest():
                return Resolved(self.latest(partitions), frozenset(partitions))
            case Specific(given, option):
                check_covers(option, given, partitions)
                return self._specific(given, partitions, option)
            case AtTimestamp():
                return self._at_timestamp(spec, partitions, ending)

    def _specific(
        self, given: Mapping[TopicPartitionPair, int], partitions: tuple[TopicPartitionPair, ...], option: str
    ) -> Resolved:
        earliest = self.earliest(tuple(tp for tp in partitions if given[tp] == EARLIEST_OFFSET))
        latest = self.latest(tuple(tp for tp in partitions if given[tp] == LATEST_OFFSET))
        if wrong := next((tp for tp in partitions if given[tp] < EARLIEST_OFFSET), None):
            raise OptionError(
                f"{option}: offset {given[wrong]} of {wrong[0]}-{wrong[1]}: must be 0 or more, "
                "-1 (latest) or -2 (earliest)"
            )
        return Resolved({**{tp: given[tp] for tp in partitions}, **earliest, **latest}, frozenset(latest))

    def _at_timestamp(self, spec: AtTimestamp, partitions: tuple[TopicPartitionPair, ...], ending: bool) -> Resolved:
        if spec.everywhere_ms is None:
            check_covers(spec.option, spec.by_partition_ms, partitions)
            asked = {tp: spec.by_partition_ms[tp] for tp in partitions}
        else:
            asked = dict.fromkeys(partitions, spec.everywhere_ms)
        found = self._list(asked)
        none = tuple(tp for tp in partitions if found[tp] < 0)
        if none and not ending and not spec.or_latest:
            topic, index = none[0]
            raise PipelineError(
                f"{spec.option}: {topic}-{index} holds no record at or after {asked[none[0]]} ms: "
                'choose an earlier time, or set startingOffsetsByTimestampStrategy="latest"'
            )
        return Resolved({**found, **self.latest(none)}, frozenset(none))
