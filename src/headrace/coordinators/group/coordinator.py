"""The group coordinator's interface for the handlers: one method per request, run on the shard of the group's id.

Methods raise Fault (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, …), which the handler translates
to the error of its API. A method that may have to wait for a commit returns the reply or a future of it; `settled`
awaits either. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from headrace.cluster.core import features
from headrace.cluster.core.delta import deleted_topics
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_groups import NamedPartitions
from headrace.coordinators.codec.share_state import ShareKey
from headrace.coordinators.group.core.classic.messages import (
    JoinReply,
    JoinRequest,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from headrace.coordinators.group.core.consumer.group import ConsumerGroup
from headrace.coordinators.group.core.descriptions import (
    DescribedClassicGroup,
    ListedGroup,
    describe_classic,
    list_groups,
)
from headrace.coordinators.group.core.heartbeat_messages import (
    HeartbeatReply,
    HeartbeatRequest,
    ShareHeartbeatRequest,
    check_heartbeat,
    check_share_heartbeat,
)
from headrace.coordinators.group.core.offsets.requests import CommitRequest, FetchedOffset
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.group.core.shard import GroupShard
from headrace.coordinators.group.core.share.group import ShareGroup
from headrace.coordinators.group.core.share.initialization import DeletionPlan
from headrace.coordinators.group.core.streams.group import StreamsGroup
from headrace.coordinators.group.core.streams.messages import (
    StreamsHeartbeatReply,
    StreamsHeartbeatRequest,
    check_streams_heartbeat,
)
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.runtime.result import Result
from headrace.coordinators.runtime.runtime import Awaited, CoordinatorRuntime, LedPartitions, settled
from headrace.coordinators.runtime.shard import HostedShard
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import GROUP_METADATA_TOPIC

_log = logging.getLogger(__name__)

# A record key holds an id behind a length of 16 bits; flexible requests could carry longer ones.
_LONGEST_ID_BYTES: Final = 32_767
_ZERO_ID: Final = str(uuid.UUID(int=0))


class GroupCoordinator:
    def __init__(
        self,
        partitions: LedPartitions,
        view: ClusterView,
        broker_id: int,
        settings: GroupSettings,
        *,
        partition_count: int = 50,
        clock: Clock = SYSTEM_CLOCK,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self.settings = settings
        self.new_uuid = new_uuid
        self._view = view
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            InternalTopic(
                GROUP_METADATA_TOPIC, partition_count, settings.write_timeout_ms, settings.load_bytes, settings.codec
            ),
            partitions,
            broker_id,
            lambda index: GroupShard(self.settings, lambda: self.new_uuid(), self._view.current),
            clock=clock,
        )

    # The cluster

    def settings_changed(self, settings: GroupSettings) -> None:
        """As in Kafka, only the assignment intervals can change while a broker runs."""
        self.settings = settings
        for hosted in self.runtime.hosted_shards():
            hosted.shard.settings_changed(settings)

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """A new cluster image: loads and unloads shards by leadership, and deletes offsets of deleted topics."""
        self.runtime.follow(new)
        for hosted in self.runtime.hosted_shards():
            hosted.shard.follow(new)
        gone = deleted_topics(old, new)
        if not gone:
            return
        topic_ids = frozenset(gone.values())
        for _, hosted in self.runtime.active_shards():
            if not hosted.shard.offsets.offsets.is_empty:
                _forget(hosted, lambda shard, now_ms: shard.offsets.topics_deleted(gone))
            if hosted.shard.share_groups:
                _forget(hosted, lambda shard, now_ms: shard.share_topics_deleted(topic_ids))

    def close(self) -> None:
        self.runtime.close()

    # The classic protocol

    async def join(self, request: JoinRequest) -> JoinReply:
        self._check_group_id(request.group_id)
        settings = self.settings
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            raise Refused(
                ErrorCode.invalid_session_timeout,
                f"session timeout {request.session_timeout_ms} ms: must be {settings.min_session_timeout_ms} to "
                f"{settings.max_session_timeout_ms}",
            )
        for name in (request.protocol_type, *(name for name, _ in request.protocols)):
            self._check_id(name, "protocol type or name")
        # The member id contains the client id. Kafka fails with an internal error if its log cannot hold it.
        named_by = request.client_id if request.instance_id is None else request.instance_id
        self._check_id(f"{named_by}-{_ZERO_ID}", "instance or client id", ErrorCode.unknown_server_error)
        token = asyncio.get_running_loop().create_future()
        self.runtime.submit(request.group_id, lambda shard, now_ms: shard.join(request, token, now_ms))
        reply: JoinReply = await token
        return reply

    async def sync(self, request: SyncRequest) -> SyncReply:
        self._check_group_id(request.group_id)
        token = asyncio.get_running_loop().create_future()
        self.runtime.submit(request.group_id, lambda shard, now_ms: shard.sync(request, token))
        reply: SyncReply = await token
        return reply

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> Awaited[ErrorCode]:
        self._check_group_id(group_id)
        reply: Awaited[ErrorCode] = self.runtime.submit(
            group_id,
            lambda shard, now_ms: shard.heartbeat(group_id, member_id, instance_id, generation),
            asks_first=False,
        )
        return reply

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Awaited[list[LeftMember]]:
        self._check_group_id(group_id)
        reply: Awaited[list[LeftMember]] = self.runtime.submit(
            group_id, lambda shard, now_ms: shard.leave(group_id, leaving, now_ms)
        )
        return reply

    # The consumer protocol

    async def consumer_heartbeat(self, request: HeartbeatRequest, version: int) -> HeartbeatReply:
        features.require(self._view.current, features.CONSUMER_GROUPS)
        check_heartbeat(request, self.settings, version)
        for text in (request.group_id, request.member_id, request.topic_regex or "", request.instance_id or ""):
            self._check_id(text, "an id or expression", ErrorCode.invalid_request)
        reply: HeartbeatReply = await self.runtime.run(
            request.group_id,
            lambda shard, now_ms: shard.consumer_heartbeat(request, now_ms),
            asks_first=request.epoch <= 0,
        )
        return reply

    # Streams groups

    def require_streams(self) -> None:
        """Raises UNSUPPORTED_VERSION unless this cluster and this broker offer streams groups."""
        features.require(self._view.current, features.STREAMS_GROUPS)
        if not self.settings.offers_streams:
            raise Refused(
                ErrorCode.unsupported_version,
                "streams groups are switched off: add `streams` to group.coordinator.rebalance.protocols",
            )

    async def streams_heartbeat(self, request: StreamsHeartbeatRequest) -> StreamsHeartbeatReply:
        check_streams_heartbeat(request)
        for text in (request.group_id, request.member_id):
            self._check_id(text, "an id", ErrorCode.invalid_request)
        reply: StreamsHeartbeatReply = await self.runtime.run(
            request.group_id,
            lambda shard, now_ms: shard.streams_heartbeat(request, now_ms),
            asks_first=request.epoch <= 0,
        )
        return reply

    async def describe_streams(self, group_id: str) -> StreamsGroup:
        """Raises GROUP_ID_NOT_FOUND. The group is read at once by the caller, never kept."""
        self._check_group_id(group_id)
        reply: StreamsGroup = await settled(
            self.runtime.read(group_id, lambda shard, now_ms: shard.streams_group(group_id))
        )
        return reply

    # Share groups

    async def share_heartbeat(self, request: ShareHeartbeatRequest) -> HeartbeatReply:
        """Only the members; `share.membership` also initialises the share partitions."""
        features.require(self._view.current, features.SHARE_GROUPS)
        check_share_heartbeat(request)
        for text in (request.group_id, request.member_id):
            self._check_id(text, "an id", ErrorCode.invalid_request)
        reply: HeartbeatReply = await self.runtime.run(
            request.group_id,
            lambda shard, now_ms: shard.share_heartbeat(request, now_ms),
            asks_first=request.epoch <= 0,
        )
        return reply

    async def share_group(self, group_id: str, *, must_be_empty: bool = False) -> ShareGroup:
        """Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. The group is read at once by the caller, never kept."""
        self._check_group_id(group_id)
        found: ShareGroup = await settled(
            self.runtime.read(
                group_id,
                lambda shard, now_ms: (
                    shard.empty_share_group(group_id) if must_be_empty else shard.share_group(group_id)
                ),
            )
        )
        return found

    async def begin_share_partitions(self, group_id: str, partitions: NamedPartitions) -> int:
        """Records them as initialising (`core.share.initialization`). Returns the group's epoch."""
        self._check_group_id(group_id)
        epoch: int = await self.runtime.run(
            group_id, lambda shard, now_ms: shard.begin_share_partitions(group_id, partitions)
        )
        return epoch

    async def share_partitions_begun(self, group_id: str, partitions: NamedPartitions) -> None:
        await self.runtime.run(group_id, lambda shard, now_ms: shard.share_partitions_begun(group_id, partitions))

    async def end_share_partitions(self, group_id: str, topics: Sequence[str]) -> DeletionPlan:
        self._check_group_id(group_id)
        going: DeletionPlan = await self.runtime.run(
            group_id, lambda shard, now_ms: shard.end_share_partitions(group_id, topics)
        )
        return going

    async def share_partitions_ended(self, group_id: str, topic_ids: Collection[uuid.UUID]) -> None:
        await self.runtime.run(group_id, lambda shard, now_ms: shard.share_partitions_ended(group_id, topic_ids))

    # Offsets

    def commit_offsets(self, request: CommitRequest) -> Awaited[set[tuple[str, int]]]:
        """Returns the partitions whose metadata is too long."""
        self._check_id(request.group_id, "group id")
        too_long: Awaited[set[tuple[str, int]]] = self.runtime.submit(
            request.group_id, lambda shard, now_ms: shard.commit_offsets(request, now_ms)
        )
        return too_long

    def commit_transactional_offsets(
        self, request: CommitRequest, producer_id: int, producer_epoch: int
    ) -> Awaited[set[tuple[str, int]]]:
        """As `commit_offsets`; the offsets take effect when the transaction commits (`complete_transaction`)."""
        self._check_id(request.group_id, "group id")
        producer = (producer_id, producer_epoch)
        too_long: Awaited[set[tuple[str, int]]] = self.runtime.submit(
            request.group_id, lambda shard, now_ms: shard.commit_transactional_offsets(request, producer, now_ms)
        )
        return too_long

    async def complete_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int = 0,
    ) -> None:
        """WriteTxnMarkers for a partition of `__consumer_offsets`: writes the marker, applies or drops its offsets."""
        await self.runtime.complete_transaction(
            partition, producer_id, producer_epoch, coordinator_epoch, commit, transaction_version
        )

    async def fetch_offsets(
        self,
        group_id: str,
        topics: list[tuple[str, Sequence[int]]] | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> dict[str, dict[int, FetchedOffset]]:
        reply: dict[str, dict[int, FetchedOffset]] = await settled(
            self.runtime.read(
                group_id,
                lambda shard, now_ms: shard.offsets.fetch(
                    group_id, topics, require_stable=require_stable, member_id=member_id, member_epoch=member_epoch
                ),
            )
        )
        return reply

    async def delete_offsets(
        self, group_id: str, topics: list[tuple[str, list[int]]]
    ) -> dict[str, dict[int, ErrorCode]]:
        self._check_group_id(group_id)
        reply: dict[str, dict[int, ErrorCode]] = await self.runtime.run(
            group_id, lambda shard, now_ms: shard.offsets.delete(group_id, topics)
        )
        return reply

    # Administration

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Deletes a group that is not a share group; `share.administration` deletes share groups."""
        errors: dict[str, ErrorCode] = await self.runtime.run(
            group_id, lambda shard, now_ms: shard.delete_groups([group_id])
        )
        return errors[group_id]

    async def is_share_group(self, group_id: str) -> bool:
        found: bool = await settled(self.runtime.read(group_id, lambda shard, now_ms: group_id in shard.share_groups))
        return found

    async def end_share_group(self, group_id: str) -> list[ShareKey]:
        """Returns all its share partitions. The caller deletes them before `delete_share_group`."""
        keys: list[ShareKey] = await self.runtime.run(group_id, lambda shard, now_ms: shard.end_share_group(group_id))
        return keys

    async def delete_share_group(self, group_id: str) -> None:
        await self.runtime.run(group_id, lambda shard, now_ms: shard.delete_share_group(group_id))

    async def list_groups(self, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
        """The groups of every shard led here. Raises the faults of `CoordinatorRuntime.read_all`."""
        wanted_states, wanted_types = list(states), list(types)
        return await self.runtime.read_all(
            lambda shard, now_ms: list_groups({**shard.groups, **shard.share_groups}, wanted_states, wanted_types)
        )

    async def describe_classic(self, group_id: str) -> DescribedClassicGroup | None:
        reply: DescribedClassicGroup | None = await settled(
            self.runtime.read(group_id, lambda shard, now_ms: describe_classic(shard.groups.get(group_id)))
        )
        return reply

    async def describe_consumer(self, group_id: str) -> ConsumerGroup:
        """Raises GROUP_ID_NOT_FOUND. The group is read at once by the caller, never kept."""
        features.require(self._view.current, features.CONSUMER_GROUPS)
        self._check_group_id(group_id)
        reply: ConsumerGroup = await settled(
            self.runtime.read(group_id, lambda shard, now_ms: shard.consumer_group(group_id))
        )
        return reply

    # Checks

    def _check_group_id(self, group_id: str) -> None:
        if not group_id:
            raise Refused(ErrorCode.invalid_group_id, "the group id is empty: give the group a name")
        self._check_id(group_id, "group id")

    def _check_id(self, text: str, what: str, code: ErrorCode = ErrorCode.invalid_group_id) -> None:
        if len(text) > _LONGEST_ID_BYTES // 4 and len(text.encode()) > _LONGEST_ID_BYTES:
            raise Refused(code, f"{what} of {len(text)} characters: at most {_LONGEST_ID_BYTES} bytes are allowed")


def _forget(hosted: HostedShard[GroupShard], operation: Callable[[GroupShard, int], Result]) -> None:
    try:
        forgotten = hosted.submit(operation)
    except Fault as fault:
        _log.warning("%s: what it knows of deleted topics stays for now: %s", hosted.name, fault.message)
    else:
        if isinstance(forgotten, asyncio.Future):
            # If this write fails, OffsetFetch hides the offsets by the id of their topic until a clean-up deletes them.
            forgotten.add_done_callback(lambda future: future.exception())
