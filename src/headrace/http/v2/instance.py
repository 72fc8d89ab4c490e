"""A consumer instance: what it reads, its positions and its commits.

An instance subscribes to topics (as a member of its group) or reads partitions that the caller assigns. It has two
clients of the caller: one for fetches, which wait at the broker, and one for the group, whose heartbeats must not wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.client.places import Kind, Place
from headrace.client.positions import offset_at
from headrace.client.record_fetch import READ_COMMITTED, FetchedRecords, fetch_records, has_moved
from headrace.client.security import ClientSecurity
from headrace.http.v2.group_member import GroupMember
from headrace.http.v3.groups import committed_offsets
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.kernel.json_values import JsonObject
from headrace.records.builder import Record
from headrace.web.errors import Problem
from headrace.wire.apis import ApiKey

_log = logging.getLogger(__name__)

_PLACES: Final = {"earliest": Place(Kind.BEGINNING), "latest": Place(Kind.END)}
RESETS: Final = (*_PLACES, "none")


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    group: str
    name: str
    format: str
    reset: str
    is_committing: bool
    timeout_ms: int


def wrong_state(message: str) -> Problem:
    return Problem(409, 40903, message)


class ConsumerInstance:
    """Owned by the event loop. `lock` keeps the requests of a caller apart."""

    def __init__(
        self, settings: InstanceSettings, principal: str, fetcher: ClusterClient, group: ClusterClient
    ) -> None:
        self.settings = settings
        self.principal = principal
        self.lock = asyncio.Lock()
        self.used_at = asyncio.get_running_loop().time()
        self._fetcher, self._group = fetcher, group
        self._member: GroupMember | None = None
        self._assigned: set[TopicPartition] = set()
        self._positions: dict[TopicPartition, int] = {}
        self.topics: list[str] = []

    def log_in_with(self, security: ClientSecurity | None) -> None:
        """For the next connections; the session of an open one ends by itself."""
        self._fetcher.security = self._group.security = security

    async def subscribe(self, topics: Sequence[str], pattern: str | None) -> None:
        if self._assigned:
            raise wrong_state("Subscription to topics, partitions and pattern are mutually exclusive.")
        await self.unsubscribe()
        member = GroupMember(self._group, self.settings.group, topics, pattern, self._give_up, self._take)
        await member.join()
        self._member, self.topics = member, list(topics)

    async def unsubscribe(self) -> None:
        if self._member is not None:
            await self.auto_commit(None)
            await self._member.leave()
        self._member, self.topics = None, []
        self._assigned, self._positions = set(), {}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        if self._member is not None:
            raise wrong_state("Subscription to topics, partitions and pattern are mutually exclusive.")
        self._assigned = set(partitions)
        self._positions = {one: at for one, at in self._positions.items() if one in self._assigned}

    @property
    def partitions(self) -> set[TopicPartition]:
        return self._assigned if self._member is None else self._member.owned

    async def _give_up(self, lost: set[TopicPartition]) -> None:
        await self.auto_commit({one: self._positions[one] for one in lost if one in self._positions})
        for one in lost:
            self._positions.pop(one, None)

    def _take(self, gained: set[TopicPartition]) -> None:
        """A position of an earlier ownership is worthless: other members may have read and committed since. A fenced
        member does not even know that it lost its partitions."""
        for one in gained:
            self._positions.pop(one, None)

    async def read(self, wait_ms: int, max_bytes: int) -> dict[TopicPartition, FetchedRecords]:
        """Records from the positions on. The caller advances the positions with `advance`. Raises Fault."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        if self._member is None and not self._assigned:
            raise wrong_state("Consumer is not subscribed to any topics or assigned any partitions.")
        if self._member is not None:
            await self._member.assigned(max(wait_ms / 1000, 0.01))
        while True:
            await self._find_positions()
            positions = {one: self._positions[one] for one in self.partitions if one in self._positions}
            left_ms = max(int((deadline - loop.time()) * 1000), 0)
            found = await self._fetched(positions, left_ms, max_bytes) if positions else {}
            if any(one.records for one in found.values()) or loop.time() >= deadline:
                return found
            if not positions:
                await asyncio.sleep(0.02)

    async def _fetched(
        self, positions: Mapping[TopicPartition, int], wait_ms: int, max_bytes: int
    ) -> dict[TopicPartition, FetchedRecords]:
        answers = await fetch_records(
            self._fetcher, positions, max_wait_ms=wait_ms, max_bytes=max_bytes, isolation_level=READ_COMMITTED
        )
        found = {}
        for partition, answer in answers.items():
            if isinstance(answer, FetchedRecords):
                found[partition] = answer
            elif answer.code is ErrorCode.offset_out_of_range and self.settings.reset != "none":
                self._positions.pop(partition, None)
                self._positions |= await offset_at(self._fetcher, [partition], _PLACES[self.settings.reset])
            elif has_moved(answer):
                self._fetcher.metadata.topics.pop(partition.topic, None)
            else:
                raise answer
        return found

    async def _find_positions(self) -> None:
        """New partitions start at the committed offset, else where `auto.offset.reset` says."""
        unknown = [one for one in self.partitions if one not in self._positions]
        if not unknown:
            return
        committed = await committed_offsets(self._group, self.settings.group)
        rest = [one for one in unknown if one not in committed]
        if rest and self.settings.reset == "none":
            raise Refused(
                ErrorCode.offset_out_of_range, f"no committed offset of {rest[0]}, and auto.offset.reset=none"
            )
        first = await offset_at(self._fetcher, rest, _PLACES[self.settings.reset]) if rest else {}
        self._positions |= {**first, **{one: committed[one] for one in unknown if one in committed}}

    def advance(self, read: Mapping[TopicPartition, FetchedRecords]) -> None:
        self._positions |= {one: found.next_offset for one, found in read.items() if one in self._positions}

    async def auto_commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """With `auto.commit.enable`. As in Kafka, a commit that fails is only logged: the records that were read still
        go to the caller, and a member still gives up its partitions and leaves."""
        if not self.settings.is_committing:
            return
        try:
            await self.commit(offsets)
        except Fault as fault:
            _log.warning("group %s: offsets were not committed: %s", self.settings.group, fault.message)

    async def commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Commits these offsets, or the positions in all partitions that the instance has. Raises Fault."""
        if offsets is None:
            offsets = {one: offset for one, offset in self._positions.items() if one in self.partitions}
        chosen = dict(offsets)
        if not chosen:
            return
        topics: dict[str, list[JsonObject]] = {}
        for partition, offset in chosen.items():
            one = {"partition_index": partition.partition, "committed_offset": offset, "committed_leader_epoch": -1}
            topics.setdefault(partition.topic, []).append({**one, "committed_metadata": ""})
        body = {
            "group_id": self.settings.group,
            "generation_id_or_member_epoch": self._member.epoch if self._member else -1,
            "member_id": self._member.id if self._member else "",
            "group_instance_id": None,
            "retention_time": -1,
            "topics": [{"name": name, "partitions": listed} for name, listed in topics.items()],
        }
        answer = await self._group.to_coordinator(self.settings.group, ApiKey.OFFSET_COMMIT, body, at_most=9)
        for topic in answer.topics:
            for result in topic.partitions:
                code = ErrorCode(result.error_code)
                if code is not ErrorCode.none:
                    raise Refused(code, f"commit of {topic.name}-{result.partition_index}: {code.name}")

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        known = await committed_offsets(self._group, self.settings.group)
        return {one: known[one] for one in partitions if one in known}

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition in offsets:
            self._check_assigned(partition)
        self._positions |= offsets

    async def seek_to(self, partitions: Sequence[TopicPartition], reset: str) -> None:
        for partition in partitions:
            self._check_assigned(partition)
        self._positions |= await offset_at(self._fetcher, partitions, _PLACES[reset])

    def _check_assigned(self, partition: TopicPartition) -> None:
        if partition not in self.partitions:
            raise wrong_state(f"No current assignment for partition {partition}")

    async def close(self) -> None:
        try:
            await self.unsubscribe()
        except (Fault, Problem):
            pass  # the offsets of a group that is gone cannot be committed
        finally:
            await self._fetcher.close()
            await self._group.close()


def records_of(read: Mapping[TopicPartition, FetchedRecords]) -> list[tuple[TopicPartition, Record]]:
    return [(partition, record) for partition, found in sorted(read.items()) for record in found.records]
