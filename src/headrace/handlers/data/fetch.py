"""Fetch (key 1, versions 4–18): records from an offset on, for consumers and followers.

v4  isolation level, aborted transactions · v5 log start offset · v7 sessions (KIP-227) · v9 current leader epoch
v10 zstd · v11 preferred read replica (KIP-392) · v12 flexible, last fetched epoch · v13 topic ids
v15 replica state · v16 current leader and endpoints (KIP-951) · v17 replica directory · v18 follower's high watermark
Records are sent as slices of segment files by sendfile. A fetch that finds less than `min_bytes` waits until an append
wakes it; it does not poll. Not implemented: tiered storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import partial
from typing import ClassVar, Final

from headrace.handlers.data.changed_partitions import ChangedPartitions
from headrace.handlers.data.current_leaders import Leaders
from headrace.handlers.data.fetch_keys import Key
from headrace.handlers.data.fetch_sessions import NO_SESSION, FetchSessions, Session, SessionPartition
from headrace.handlers.data.long_poll import LongPoll, Stop
from headrace.handlers.data.produce_checks import topic_id_of
from headrace.handlers.dispatch.authorization import UNRESTRICTED, Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.metering import Metering
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused, UnknownPartition, UnknownTopicId
from headrace.kernel.isolation import READ_COMMITTED
from headrace.net.replies import Parts, Pending
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions
from headrace.replication.replica import Follower, PartitionRead
from headrace.replication.waiters import FetchWaiter
from headrace.security.acl.model import CLUSTER_NAME, Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader
from headrace.wire.fetch import FetchedPartition, FetchedTopic, encode_fetch_response
from headrace.wire.fetch_request import FetchRequest, read_fetch_request

_ZSTD_FROM: Final = 10
_LEADER_TOLD_FROM: Final = 16
_STORAGE_ERROR_FROM: Final = 6
_SENT_ELSEWHERE: Final = frozenset({int(ErrorCode.not_leader_or_follower), int(ErrorCode.fenced_leader_epoch)})
_DENIED_TOPIC: Final = int(ErrorCode.topic_authorization_failed)
_UNKNOWN_ID: Final = int(ErrorCode.unknown_topic_id)
_READ: Final = Operation.READ
_TOPIC: Final = ResourceType.TOPIC
_NOT_LEADER: Final = int(ErrorCode.not_leader_or_follower)
_HURRIED_WAIT_MS: Final = 20


@dataclass(slots=True)
class ReadRequest:
    """The fields of a fetch request that a read needs."""

    context: RequestContext
    wanted: dict[Key, SessionPartition]
    session: Session | None
    only_changes: bool
    follower: Follower | None
    isolation: int
    max_bytes: int
    min_bytes: int
    client_rack: str
    # With a session: the partitions to check. None: all of them.
    news: ChangedPartitions | None
    # The rights of a consumer; None if it may read everything.
    access: Access | None


@dataclass(slots=True)
class ReadResult:
    """Result of one pass over the partitions."""

    fetched: list[tuple[SessionPartition, FetchedPartition]]
    size_bytes: int
    # The rests of limits that count towards `min_bytes`, see `_rest_of_limit`.
    rest_bytes: int
    # A fault, a divergence or a better replica: the client must get it now.
    is_urgent: bool
    readable: list[Partition]


@dataclass(frozen=True)
class Fetch(Handler):
    partitions: Partitions
    leaders: Leaders
    sessions: FetchSessions
    max_bytes: int = 57_671_680
    metering: Metering = field(default_factory=Metering)
    clock: Clock = SYSTEM_CLOCK

    api_key: ClassVar[ApiKey] = ApiKey.FETCH
    versions: ClassVar[range] = range(4, 19)
    needs: ClassVar[Needs] = Needs(topic=Operation.READ, cluster=Operation.CLUSTER_ACTION)

    def read(self, header: RequestHeader, frame: memoryview, body_at: int) -> FetchRequest:
        return read_fetch_request(frame, body_at, header.api_version)

    def serve(self, request: FetchRequest, context: RequestContext) -> Parts | Pending:
        version = context.header.api_version
        replica_id, access = request.replica_id, context.access
        if replica_id >= 0:
            if not access.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
                return self._denied_follower(request, context)
            self.partitions.heard_from(replica_id)
        try:
            wanted, session, only_changes = self.sessions.open(
                request, version, replica_id >= 0, context.received_at_ms
            )
        except Refused as refused:
            return encode_fetch_response(version, context.header.correlation_id, (), error_code=int(refused.code))
        max_bytes = min(request.max_bytes, self.max_bytes)
        if self.metering.quotas.limits_fetch and replica_id < 0:
            max_bytes = self.metering.quotas.fetch_allowance(context.principal, context.client_id, max_bytes)
        asked = ReadRequest(
            context,
            wanted,
            session,
            only_changes,
            Follower(replica_id, request.replica_epoch) if replica_id >= 0 else None,
            request.isolation_level,
            max_bytes,
            min(request.min_bytes, max_bytes),
            request.rack_id,
            session.news if session is not None and only_changes and not self._chooses_replica(request) else None,
            access if replica_id < 0 and access is not UNRESTRICTED else None,
        )
        max_wait_ms = request.max_wait_ms
        if max_wait_ms > _HURRIED_WAIT_MS and self._is_hurried(asked):
            max_wait_ms = _HURRIED_WAIT_MS
        gathered = self._gather(asked)
        if max_wait_ms <= 0 or not _may_wait(asked, gathered):
            return self._answer(asked, gathered)
        if asked.follower is not None:
            asked.follower = asked.follower._replace(is_news=False)
        poll = LongPoll(partial(self._look_again, asked), max_wait_ms)
        poll.wait(_watch(asked, gathered, poll.wake))
        return poll.pending

    def _look_again(self, asked: ReadRequest, is_late: bool, wake: Callable[[], None]) -> Parts | Stop:
        """The answer of a waiting fetch, or its next watch."""
        gathered = self._gather(asked)
        if is_late or not _may_wait(asked, gathered) or self._is_hurried(asked):
            return self._answer(asked, gathered)
        return _watch(asked, gathered, wake)

    def _is_hurried(self, asked: ReadRequest) -> bool:
        return asked.follower is not None and self.sessions.in_a_hurry(self.clock.monotonic_ms())

    # Rights

    def _is_denied(self, topic: str | bytes, access: Access) -> bool:
        name = self._name(topic)
        return name is not None and not access.may(_READ, _TOPIC, name)

    def _denied_follower(self, request: FetchRequest, context: RequestContext) -> Parts:
        """A replica fetch without ClusterAction: no session, and no effect on the high watermark."""
        topics: list[FetchedTopic] = [
            (
                topic,
                [
                    FetchedPartition(
                        one.partition, _UNKNOWN_ID if self._name(topic) is None else _DENIED_TOPIC, aborted=()
                    )
                    for one in partitions
                ],
            )
            for topic, partitions in request.topics
        ]
        return encode_fetch_response(context.version, context.header.correlation_id, topics)

    # Reading

    def _gather(self, asked: ReadRequest) -> ReadResult:
        gathered = ReadResult([], 0, 0, False, [])
        news = asked.news
        if news is None:
            self._look_at(asked, asked.wanted.values(), gathered)
            return gathered
        fresh = news.take(asked.wanted, self.clock.monotonic_ms())
        self._look_at(asked, [asked.wanted[key] for key in fresh if key in asked.wanted], gathered)
        served: list[SessionPartition] = []
        for wanted, one in gathered.fetched:
            if one.records is not None:
                served.append(wanted)
            elif not self._is_quiet(asked, wanted, one):
                news.not_quiet(wanted.key)
        for wanted in served:  # last, so that no partition starves the others
            news.not_quiet(wanted.key)
        return gathered

    def _chooses_replica(self, request: FetchRequest) -> bool:
        """Whether each check of a partition may name another replica to read from, without news in the partition."""
        return bool(request.rack_id) and self.partitions.serves_consumers_from_followers

    def _is_quiet(self, asked: ReadRequest, wanted: SessionPartition, one: FetchedPartition) -> bool:
        """Whether the client knows everything about this partition; then a watch replaces the checks."""
        if one.error_code or one.diverging is not None or not wanted.knows(one.high_watermark, one.log_start_offset):
            return False
        if asked.follower is not None:
            return wanted.offset == self._partition(wanted.topic, wanted.index).log_end_offset
        # A partition that the answer had no room for is not quiet.
        bound = one.last_stable_offset if asked.isolation == READ_COMMITTED else one.high_watermark
        return wanted.offset >= bound and one.preferred_read_replica == -1

    def _look_at(self, asked: ReadRequest, several: Iterable[SessionPartition], gathered: ReadResult) -> None:
        left = asked.max_bytes
        min_one = True
        fetched = gathered.fetched
        news, access = asked.news, asked.access
        denied: dict[str | bytes, bool] = {}
        for wanted in several:
            topic, index = wanted.topic, wanted.index
            if access is not None and topic not in denied:
                denied[topic] = self._is_denied(topic, access)
            if denied and denied[topic]:
                # Not urgent: otherwise the client would fetch in a busy loop.
                fetched.append((wanted, FetchedPartition(index, _DENIED_TOPIC, aborted=())))
                continue
            limit = min(wanted.max_bytes, left)
            try:
                partition = self._partition(topic, index)
                if partition.log.config.compression_type == "zstd" and asked.context.version < _ZSTD_FROM:
                    raise Refused(ErrorCode.unsupported_compression_type, "zstd needs fetch v10 or later")
                read = partition.read(
                    wanted.offset,
                    limit,
                    isolation=asked.isolation,
                    follower=asked.follower,
                    current_leader_epoch=wanted.leader_epoch,
                    last_fetched_epoch=wanted.last_fetched_epoch,
                    replica_log_start=wanted.replica_log_start,
                    min_one=min_one,
                    client_rack=asked.client_rack,
                )
                there = 0 if read.slice is None else read.slice.length
                if (there or not min_one) and gathered.size_bytes + there + gathered.rest_bytes < asked.min_bytes:
                    gathered.rest_bytes += _rest_of_limit(asked, wanted.offset, limit, partition, read)
            except Fault as fault:
                # A deleted topic does not end the wait: otherwise the client would fetch in a busy loop.
                gathered.is_urgent |= not isinstance(fault, UnknownPartition | UnknownTopicId)
                self._count_failure(wanted.topic)
                if news is not None:
                    news.unwatch(wanted.key)
                fetched.append((wanted, self._refused(wanted, fault, asked.context.version)))
                continue
            found, high_watermark, stable, log_start, aborted, diverging, preferred = read
            if found is not None:
                gathered.size_bytes += found.length
                left = max(0, left - found.length)
                min_one = False
            elif diverging is not None or preferred != -1:
                gathered.is_urgent = True
            gathered.readable.append(partition)
            if news is not None:
                news.watch((topic, index), partition.readers if asked.follower is None else partition.tail_readers)
            fetched.append(
                (
                    wanted,
                    FetchedPartition(
                        index,
                        0,
                        high_watermark,
                        stable,
                        log_start,
                        None if aborted is None else [(a.producer_id, a.first_offset) for a in aborted],
                        preferred,
                        found,
                        diverging,
                    ),
                )
            )

    def _partition(self, topic: str | bytes, index: int) -> Partition:
        if isinstance(topic, str):
            return self.partitions.held(topic, index)
        return self.partitions.by_id(topic, index)

    def _refused(self, wanted: SessionPartition, fault: Fault, version: int) -> FetchedPartition:
        code = int(fault.code)
        if fault.code is ErrorCode.kafka_storage_error and version < _STORAGE_ERROR_FROM:
            code = _NOT_LEADER
        leader = None
        if version >= _LEADER_TOLD_FROM and code in _SENT_ELSEWHERE:
            name = self._name(wanted.topic)
            leader = self.leaders.of(name, wanted.index) if name is not None else None
        # As in Kafka: an empty list of aborted transactions for an unknown partition, null for other errors.
        unknown = isinstance(fault, UnknownPartition | UnknownTopicId)
        return FetchedPartition(wanted.index, code, aborted=() if unknown else None, current_leader=leader)

    def _name(self, topic: str | bytes) -> str | None:
        return topic if isinstance(topic, str) else self.leaders.view.current.topic_names.get(topic_id_of(topic))

    # Answering

    def _answer(self, asked: ReadRequest, gathered: ReadResult) -> Parts:
        session, context = asked.session, asked.context
        fetched = gathered.fetched
        if self.metering.quotas.limits_fetch and asked.follower is None:
            wait_ms = self.metering.fetched(context, gathered.size_bytes, self.clock.wall_ms())
            if wait_ms:
                return self._held_back(asked, wait_ms)
        if session is not None:
            told = [(wanted, one) for wanted, one in fetched if wanted.tell(one) or not asked.only_changes]
            session.moved_to_end([w.key for w, one in told if one.records is not None])
            fetched = told
        topics: list[tuple[str | bytes, list[FetchedPartition]]] = []
        leaders: set[int] = set()
        for wanted, one in fetched:
            if not topics or topics[-1][0] != wanted.topic:
                topics.append((wanted.topic, []))
            topics[-1][1].append(one)
            if one.records is not None:
                self._count(asked, wanted.topic, one.records.length)
            if one.current_leader is not None:
                leaders.add(one.current_leader[0])
        answered: list[FetchedTopic] = [*topics]
        return encode_fetch_response(
            context.version,
            context.header.correlation_id,
            answered,
            session_id=NO_SESSION if session is None else session.id,
            node_endpoints=self.leaders.endpoints(leaders, context.listener) if leaders else (),
        )

    def _held_back(self, asked: ReadRequest, wait_ms: int) -> Parts:
        """Answers without records during a throttle (KIP-219). The next fetch creates a new session again."""
        known = asked.session is not None and asked.only_changes
        return encode_fetch_response(
            asked.context.version,
            asked.context.header.correlation_id,
            (),
            throttle_time_ms=wait_ms,
            session_id=asked.session.id if asked.session is not None and known else NO_SESSION,
        )

    def _count_failure(self, topic: str | bytes) -> None:
        name = self._name(topic)
        if name is not None and name in self.leaders.view.current.topics:  # unknown names are not cached
            self.metering.traffic[name].failed_fetches += 1

    def _count(self, asked: ReadRequest, topic: str | bytes, size_bytes: int) -> None:
        name = self._name(topic)
        if name is None:
            return
        used = self.metering.traffic[name]
        used.fetches += 1
        if asked.follower is None:
            used.bytes_out += size_bytes
        else:
            used.replication_bytes_out += size_bytes


def _may_wait(asked: ReadRequest, gathered: ReadResult) -> bool:
    """Whether there are too few bytes, and a partition that could bring more."""
    if gathered.is_urgent or gathered.size_bytes + gathered.rest_bytes >= asked.min_bytes:
        return False
    if gathered.readable:
        return True
    return asked.news is not None and (asked.follower is not None or asked.news.is_watching)


def _rest_of_limit(asked: ReadRequest, offset: int, limit: int, partition: Partition, read: PartitionRead) -> int:
    """What a read leaves of its limit although more records are there: the next batch is too large, or in the next
    segment. Kafka counts it towards `min_bytes`. Otherwise a consumer would wait for new records before old ones."""
    if asked.follower is not None:
        bound = partition.log_end_offset
    else:
        bound = read.last_stable_offset if asked.isolation == READ_COMMITTED else read.high_watermark
    if read.slice is None:
        return limit if asked.follower is None and offset < bound else 0
    return max(0, limit - read.slice.length) if partition.log.has_more_behind(read.slice, bound) else 0


def _watch(asked: ReadRequest, gathered: ReadResult, wake: Callable[[], None]) -> Stop:
    missing_bytes = asked.min_bytes - gathered.size_bytes - gathered.rest_bytes
    reads_committed = asked.isolation == READ_COMMITTED
    news = asked.news
    if news is not None:
        news.wait(missing_bytes, wake, reads_committed=reads_committed)
        return news.stop_waiting
    waiter = FetchWaiter(missing_bytes, wake, reads_committed=reads_committed)
    for partition in gathered.readable:
        waiter.watch(partition.readers if asked.follower is None else partition.tail_readers)
    return waiter.cancel
