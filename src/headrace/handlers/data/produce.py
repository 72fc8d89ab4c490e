"""Produce (key 0, versions 3–13): append batches to the partitions that this broker leads.

v3  record batches of magic 2, transactional id · v5 log start offset · v7 zstd · v8 record errors · v9 flexible
v10 current leader and its endpoint (KIP-951) · v11 retriable transaction faults · v12 the leader adds
partitions to a transaction (KIP-890) · v13 topic ids

Advertised from 0, because old clients choose their compression by that. A request of version 0–2 closes the connection,
as in Kafka. acks=0 and 1 are answered inline, acks=all too when this broker alone is in sync; otherwise the answer
waits for the high watermark while the connection keeps reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import ClassVar, Final

from headrace.handlers.data.current_leaders import Leaders
from headrace.handlers.data.group_commit import GroupCommit
from headrace.handlers.data.produce_checks import check_records, has_transactional_records, topic_id_of
from headrace.handlers.data.schema_guard import SchemaGuard, SchemaUse
from headrace.handlers.data.transaction_guard import Place, TransactionGuard, UnverifiedBatch
from headrace.handlers.dispatch.authorization import UNRESTRICTED, Access, Needs, denied
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.metering import Metering
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import INTERNAL_TOPICS
from headrace.net.replies import CLOSE, Answer, Close, Pending, Reply
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader
from headrace.wire.node_endpoints import NodeEndpoint
from headrace.wire.produce import (
    LOG_START_FROM,
    PartitionOutcome,
    ProduceRequest,
    encode_produce_response,
    encode_taken,
    read_produce_request,
)

# As in Kafka, only its admin client id may write to internal topics.
_INTERNAL_CLIENT: Final = "__admin_client"
# Looked up once: an enumeration member costs as much as the check.
_WRITE: Final = Operation.WRITE
_TOPIC: Final = ResourceType.TOPIC
_NOT_LEADER: Final = int(ErrorCode.not_leader_or_follower)
_TIMED_OUT: Final = int(ErrorCode.request_timed_out)
# Errors found before the log is read; Kafka then sends no log start offset.
_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_id,
        ErrorCode.invalid_topic_exception,
    }
)

Topics = list[tuple[str | bytes, list[PartitionOutcome]]]


def _keep_records(request: ProduceRequest) -> None:
    """Copies the records, because they must outlive the frame: later requests must not be appended before them."""
    for _, partitions in request.topics:
        partitions[:] = [(index, _copy(records)) for index, records in partitions]


def _copy(records: memoryview | None) -> memoryview | None:
    return None if records is None else memoryview(bytearray(records))


@dataclass(slots=True)
class Commit:
    """An appended batch whose acknowledgement waits for the high watermark."""

    outcomes: list[PartitionOutcome]
    place: int
    partition: Partition
    offset_exclusive: int
    is_open: bool = True

    def answered(self, code: int) -> None:
        self.outcomes[self.place] = self.outcomes[self.place]._replace(error_code=code)


@dataclass(frozen=True)
class Produce(Handler):
    partitions: Partitions
    leaders: Leaders
    transactions: TransactionGuard
    schemas: SchemaGuard
    metering: Metering = field(default_factory=Metering)
    group_commit: GroupCommit = field(default_factory=GroupCommit)

    api_key: ClassVar[ApiKey] = ApiKey.PRODUCE
    versions: ClassVar[range] = range(3, 14)
    needs: ClassVar[Needs] = Needs(topic=Operation.WRITE, transactional_id=Operation.WRITE)
    advertised_from: ClassVar[int] = 0

    def read(self, header: RequestHeader, frame: memoryview, body_at: int) -> ProduceRequest:
        return read_produce_request(frame, body_at, header.api_version)

    def serve(self, request: ProduceRequest, context: RequestContext) -> Reply:
        refused: dict[Place, Fault] = {}
        if context.access is not UNRESTRICTED:
            refused = self._denied(request, context.access)
        if self.schemas.topics:
            unknown = self.schemas.unknown(request, refused)
            if unknown:
                _keep_records(request)
                return Pending.of(self._when_schemas_are_known(request, unknown, context, refused))
        if request.transactional_id is None:
            return self._append_all(request, context, refused)
        return self._when_in_transaction(request, context, refused)

    async def _when_schemas_are_known(
        self, request: ProduceRequest, unknown: list[SchemaUse], context: RequestContext, refused: dict[Place, Fault]
    ) -> Answer:
        refused |= await self.schemas.ask(unknown)
        reply = self._when_in_transaction(request, context, refused)
        return await reply if isinstance(reply, Pending) else reply

    def _when_in_transaction(
        self, request: ProduceRequest, context: RequestContext, refused: dict[Place, Fault]
    ) -> bytearray | Close | Pending | None:
        if request.transactional_id is None or not self.transactions.is_required(context.version):
            return self._append_all(request, context, refused)
        unverified = self.transactions.unverified(request, context.version, context.received_at_ms, refused)
        if unverified:
            _keep_records(request)
            return Pending.of(self._when_verified(request, unverified, context, refused))
        return self._append_all(request, context, refused, guards={})

    def _denied(self, request: ProduceRequest, access: Access) -> dict[Place, Fault]:
        """The errors of batches that the client may not write."""
        id_ = request.transactional_id
        if (
            id_ is not None
            and has_transactional_records(request)
            and not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, id_)
        ):
            fault = denied(ResourceType.TRANSACTIONAL_ID)
            return {(topic, index): fault for topic, partitions in request.topics for index, _ in partitions}
        refused: dict[Place, Fault] = {}
        for topic, partitions in request.topics:
            name = topic if isinstance(topic, str) else self._name(topic)
            if name is not None and not access.may(_WRITE, _TOPIC, name):
                fault = denied(ResourceType.TOPIC)
                refused.update({(topic, index): fault for index, _ in partitions})
        return refused

    def _name(self, topic_id: bytes) -> str | None:
        return self.leaders.view.current.topic_names.get(topic_id_of(topic_id))

    async def _when_verified(
        self,
        request: ProduceRequest,
        unverified: list[UnverifiedBatch],
        context: RequestContext,
        refused: dict[Place, Fault],
    ) -> Answer:
        assert request.transactional_id is not None
        refused |= await self.transactions.ask(request.transactional_id, unverified, context.version)
        guards = {batch.place: batch.guard for batch in unverified}
        reply = self._append_all(request, context, refused, guards)
        return await reply if isinstance(reply, Pending) else reply

    def _append_all(
        self,
        request: ProduceRequest,
        context: RequestContext,
        refused: dict[Place, Fault],
        guards: dict[Place, object] | None = None,
    ) -> bytearray | Close | Pending | None:
        """`guards`: of the batches that were verified. Every other transactional batch must find its transaction open,
        unless `guards` is None."""
        acks, version, now_ms = request.acks, context.header.api_version, context.received_at_ms
        transactional = request.transactional_id is not None
        topics: Topics = []
        commits: list[Commit] = []
        to_sync: list[Commit] = []
        failed = False
        traffic = self.metering.traffic
        for topic, partitions in request.topics:
            outcomes: list[PartitionOutcome] = []
            topics.append((topic, outcomes))
            for index, records in partitions:
                partition = None
                try:
                    if refused and (topic, index) in refused:
                        raise refused[topic, index]
                    if acks not in (1, -1, 0):
                        raise Refused(ErrorCode.invalid_required_acks, f"acks={acks}: must be -1, 0 or 1")
                    checked = check_records(records, version, transactional)
                    partition = self._partition(topic, index, context)
                    if guards is None:
                        appended = partition.append(checked, acks=acks, now_ms=now_ms)
                    else:
                        guard = guards.get((topic, index))
                        appended = partition.append(checked, acks=acks, now_ms=now_ms, verification=guard, verify=True)
                except Fault as fault:
                    failed = True
                    outcomes.append(self._refused(topic, index, partition, fault))
                    if partition is not None:
                        traffic[partition.topic].failed_produces += 1
                    continue
                used = traffic[partition.topic]
                used.produces += 1
                used.bytes_in += len(checked)
                used.messages_in += appended.last_offset - appended.first_offset + 1
                outcomes.append(
                    PartitionOutcome(
                        index, 0, appended.first_offset, appended.log_append_time_ms, appended.log_start_offset
                    )
                )
                end = appended.last_offset + 1
                if partition.log.config.flush_before_ack:
                    to_sync.append(Commit(outcomes, len(outcomes) - 1, partition, end))
                if acks == -1:
                    code = partition.committed(end)
                    if code is None:
                        commits.append(Commit(outcomes, len(outcomes) - 1, partition, end))
                    elif code:
                        outcomes[-1] = outcomes[-1]._replace(error_code=int(code))
        wait_ms = self.metering.produced(context, request.size_bytes) if self.metering.quotas.limits_produce else 0
        if acks == 0:
            # There is no answer with acks=0; closing the connection is the only way to report an error.
            return CLOSE if failed else None
        if to_sync:
            waiting = self._when_synced(to_sync, commits, request.timeout_ms, topics, context, wait_ms)
            return Pending.of(waiting, overlapping=True)
        if commits:
            return self._when_committed(commits, request.timeout_ms, topics, context, wait_ms)
        return self._encode(topics, context, failed, wait_ms)

    def _partition(self, topic: str | bytes, index: int, context: RequestContext) -> Partition:
        if isinstance(topic, str):
            partition = self.partitions.led(topic, index)
        else:
            partition = self.partitions.by_id(topic, index)
        if partition.topic in INTERNAL_TOPICS and context.client_id != _INTERNAL_CLIENT:
            raise Refused(
                ErrorCode.invalid_topic_exception, f"{partition.topic} is internal: clients cannot write to it"
            )
        return partition

    def _refused(self, topic: str | bytes, index: int, partition: Partition | None, fault: Fault) -> PartitionOutcome:
        log_start = -1
        if partition is not None and fault.code not in _WITHOUT_LOG_START:
            log_start = partition.log_start_offset
        leader = None
        if fault.code == ErrorCode.not_leader_or_follower:
            name = topic if isinstance(topic, str) else self._name(topic)
            leader = self.leaders.of(name, index) if name is not None else None
        return PartitionOutcome(
            index,
            int(fault.code),
            log_start_offset=log_start,
            error_message=fault.message or None,
            record_errors=getattr(fault, "record_errors", ()),
            current_leader=leader,
        )

    def _encode(self, topics: Topics, context: RequestContext, failed: bool, wait_ms: int) -> bytearray:
        header = context.header
        version = header.api_version
        if not wait_ms and len(topics) == 1 and version >= LOG_START_FROM:
            topic, outcomes = topics[0]
            if len(outcomes) == 1 and not outcomes[0].error_code:
                index, _, offset, append_time_ms, log_start, *_ = outcomes[0]
                return encode_taken(version, header.correlation_id, topic, index, offset, append_time_ms, log_start)
        endpoints: tuple[NodeEndpoint, ...] = ()
        if failed and version >= 10:
            leaders = {o.current_leader[0] for _, outcomes in topics for o in outcomes if o.current_leader is not None}
            endpoints = self.leaders.endpoints(leaders, context.listener)
        return encode_produce_response(version, header.correlation_id, topics, wait_ms, endpoints)

    async def _when_synced(
        self,
        to_sync: list[Commit],
        commits: list[Commit],
        timeout_ms: int,
        topics: Topics,
        context: RequestContext,
        wait_ms: int,
    ) -> Answer:
        """Waits for the disk first, then for the replicas, which fetch meanwhile."""

        async def sync(write: Commit) -> None:
            try:
                within_s = max(timeout_ms, 0) / 1000
                code = await asyncio.wait_for(
                    self.group_commit.synced(write.partition.log, write.offset_exclusive), within_s
                )
            except TimeoutError:
                code = ErrorCode.request_timed_out
            if code is not ErrorCode.none:
                write.answered(int(code))
                commits[:] = [one for one in commits if one.outcomes is not write.outcomes or one.place != write.place]

        await asyncio.gather(*(sync(write) for write in to_sync))
        return await self._when_committed(commits, timeout_ms, topics, context, wait_ms)

    def _when_committed(
        self, commits: list[Commit], timeout_ms: int, topics: Topics, context: RequestContext, wait_ms: int
    ) -> Pending:
        def answer() -> bytearray:
            failed = any(outcome.error_code == _NOT_LEADER for _, outcomes in topics for outcome in outcomes)
            return self._encode(topics, context, failed, wait_ms)

        return Acknowledgement(commits, timeout_ms, answer).pending


class Acknowledgement:
    """The answer to acks=all, given when the last of its batches is committed or refused, or after the timeout.

    After the timeout the records stay in the log and may still be committed.
    """

    __slots__ = ("_answer", "_commits", "_missing", "_timer", "pending")

    def __init__(self, commits: list[Commit], timeout_ms: int, answer: Callable[[], bytearray]) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(timeout_ms, 0) / 1000, self._give)
        self.pending = Pending(overlapping=True, dropped=self._timer.cancel)
        self._answer = answer
        self._commits = commits
        self._missing = len(commits)
        for commit in commits:
            commit.partition.when_committed(commit.offset_exclusive, partial(self._one, commit))
        if not commits:
            self._give()

    def _one(self, commit: Commit, code: ErrorCode) -> None:
        if self.pending.ready:
            return
        commit.is_open = False
        if code:
            commit.answered(int(code))
        self._missing -= 1
        if not self._missing:
            self._give()

    def _give(self) -> None:
        self._timer.cancel()
        for commit in self._commits:
            if commit.is_open:
                commit.answered(_TIMED_OUT)
        try:
            answer = self._answer()
        except Exception as bug:  # must not reach the code that moved the high watermark
            self.pending.fail(bug)
        else:
            self.pending.give(answer)
