"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit, checked against their group."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.coordinators.codec.offsets import OffsetValue, offset_key, offset_value
from headrace.coordinators.group.core.classic.group import ClassicGroup
from headrace.coordinators.group.core.consumer.group import ConsumerGroup
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.offsets import rules as offset_rules
from headrace.coordinators.group.core.offsets.committed import Offsets, TopicCommit
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.group.core.streams.group import StreamsGroup
from headrace.coordinators.runtime.result import Result
from headrace.kernel.errors import ErrorCode, Refused
from headrace.records.builder import Record

Group = ClassicGroup | ConsumerGroup | StreamsGroup

# No retention in the request: the broker's setting applies. Only clients before Kafka 2.1 send one.
_DEFAULT_RETENTION_MS: Final = -1
_END_OF_TIME_MS: Final = (1 << 63) - 1


class CommitRequest(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    topics: Sequence[TopicCommit]
    retention_ms: int = -1
    api_version: int = 9


class FetchedOffset(NamedTuple):
    error: ErrorCode
    value: OffsetValue | None


UNSTABLE = FetchedOffset(ErrorCode.unstable_offset_commit, None)
NOT_COMMITTED = FetchedOffset(ErrorCode.none, None)


class OffsetRequests:
    def __init__(self, groups: Mapping[str, Group], settings: GroupSettings) -> None:
        self.offsets = Offsets()
        self._groups = groups
        self._settings = settings

    def commit(self, request: CommitRequest, now_ms: int) -> tuple[list[Record], set[tuple[str, int]]]:
        """The records, and the partitions whose metadata is too long. Raises Refused."""
        group = self._groups.get(request.group_id)
        if group is None:
            if request.generation >= 0:
                raise Refused(
                    ErrorCode.group_id_not_found if request.api_version >= 9 else ErrorCode.illegal_generation,
                    f"Group {request.group_id} not found.",
                )
        elif isinstance(group, ConsumerGroup | StreamsGroup):
            self._check_epoched(group, request, transactional=False)
        else:
            offset_rules.check_classic_commit(
                group, request.member_id, request.instance_id, request.generation, transactional=False
            )
        expire_ms = -1
        if request.retention_ms != _DEFAULT_RETENTION_MS:
            expire_ms = min(max(now_ms + request.retention_ms, 0), _END_OF_TIME_MS)
        return self._records(request, now_ms, expire_ms)

    def commit_transactional(self, request: CommitRequest, producer: tuple[int, int], now_ms: int) -> Result:
        """Raises Refused. The reply is the set of partitions whose metadata is too long."""
        group = self._groups.get(request.group_id)
        if group is None:
            if request.generation >= 0:
                raise Refused(ErrorCode.illegal_generation, f"Group {request.group_id} not found.")
        elif isinstance(group, ConsumerGroup | StreamsGroup):
            try:
                self._check_epoched(group, request, transactional=True)
            except Refused as refused:
                if refused.code is ErrorCode.stale_member_epoch:
                    raise Refused(ErrorCode.illegal_generation, refused.message) from refused
                raise
        else:
            offset_rules.check_classic_commit(
                group, request.member_id, request.instance_id, request.generation, transactional=True
            )
        # The request has topic names, not ids; so has the record, as in Kafka.
        topics = [TopicCommit(topic, None, partitions) for topic, _, partitions in request.topics]
        records, too_long = self._records(request._replace(topics=topics), now_ms, -1)
        return Result(records, too_long, producer=producer if records else None)

    def _check_epoched(
        self, group: ConsumerGroup | StreamsGroup, request: CommitRequest, *, transactional: bool
    ) -> None:
        asked = (request.member_id, request.instance_id, request.generation, request.topics)
        api_version, longest = request.api_version, self._settings.offset_metadata_max_bytes
        if isinstance(group, StreamsGroup):
            offset_rules.check_streams_commit(
                group, *asked, transactional=transactional, api_version=api_version, longest_metadata=longest
            )
        else:
            offset_rules.check_consumer_commit(
                group, *asked, transactional=transactional, api_version=api_version, longest_metadata=longest
            )

    def _records(
        self, request: CommitRequest, now_ms: int, expire_ms: int
    ) -> tuple[list[Record], set[tuple[str, int]]]:
        longest = self._settings.offset_metadata_max_bytes
        records: list[Record] = []
        too_long: set[tuple[str, int]] = set()
        for topic, topic_id, partitions in request.topics:
            for partition, offset, leader_epoch, metadata in partitions:
                if len(metadata) > longest:
                    too_long.add((topic, partition))
                    continue
                value = OffsetValue(offset, leader_epoch, metadata, now_ms, expire_ms, topic_id)
                records.append(Record(offset_key(request.group_id, topic, partition), offset_value(value)))
        return records, too_long

    def fetch(
        self,
        group_id: str,
        topics: Iterable[tuple[str, Sequence[int]]] | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> dict[str, dict[int, FetchedOffset]]:
        """Topic → partition → offset; topics=None asks for all that are known. An unknown group is no error and has no
        offsets: every consumer starts this way. Raises Refused for a stale member.
        """
        group = self._groups.get(group_id)
        if group is not None:
            offset_rules.check_fetch(group, member_id, member_epoch)
        if topics is None:
            known = self.offsets.of_group(group_id)
            topics = [(topic, list(partitions)) for topic, partitions in known.items()]
        found: dict[str, dict[int, FetchedOffset]] = {}
        for topic, partitions in topics:
            of_topic = found.setdefault(topic, {})
            for index in partitions:
                of_topic[index] = self._one(group_id, topic, index, require_stable)
        return found

    def _one(self, group_id: str, topic: str, partition: int, require_stable: bool) -> FetchedOffset:
        if require_stable and self.offsets.is_pending(group_id, topic, partition):
            return UNSTABLE
        value = self.offsets.get(group_id, topic, partition)
        return NOT_COMMITTED if value is None else FetchedOffset(ErrorCode.none, value)

    def delete(self, group_id: str, topics: Iterable[tuple[str, Sequence[int]]]) -> Result:
        """Raises Refused. The reply is topic → partition → error."""
        group = self._groups.get(group_id)
        if group is None:
            raise Refused(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
        offset_rules.check_offset_delete(group)
        effects = Effects()
        errors: dict[str, dict[int, ErrorCode]] = {}
        for topic, partitions in topics:
            subscribed = group.is_subscribed_to(topic)
            error = ErrorCode.group_subscribed_to_topic if subscribed else ErrorCode.none
            errors.setdefault(topic, {}).update(dict.fromkeys(partitions, error))
            if not subscribed:
                for partition in partitions:
                    self.offsets.forget(group_id, topic, partition, effects)
        return effects.result(errors)

    def topics_deleted(self, deleted: Mapping[str, uuid.UUID]) -> Result:
        effects = Effects()
        self.offsets.forget_topics(deleted, effects)
        return effects.result(atomic=False)

    def expire(self, group: Group, now_ms: int, effects: Effects) -> bool:
        return self.offsets.expire(
            group.group_id,
            offset_rules.expires_from(group),
            group.is_subscribed_to,
            self._settings.offsets_retention_ms,
            now_ms,
            effects,
        )
