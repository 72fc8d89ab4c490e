"""Incremental fetch sessions (KIP-227): a client sends its partitions once, then only changes.

    full fetch, epoch 0 ──► session created (if there is room), full answer ──► epochs 1, 2, …: only the changed
    full fetch, epoch -1 ──► session ended, full answer, no session

A session belongs to one client, and each of its requests carries the next epoch. A wrong epoch means that an answer was
lost, and the client starts again with a full fetch. The cache is bounded: a new session evicts one that has been unused
for a while, or a smaller one that is old enough. If there is none, the client gets an answer without a session.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from headrace.handlers.data.changed_partitions import ChangedPartitions
from headrace.handlers.data.fetch_keys import Key
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.fetch import FetchedPartition
from headrace.wire.fetch_request import SESSIONS_FROM, TOPIC_IDS_FROM, FetchRequest, WantedPartition

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
NO_SESSION: Final = 0
_MAX_EPOCH: Final = 0x7FFFFFFF

_NONE: Final = int(ErrorCode.none)
# Within this time followers and leaders apply a change of leadership.
_HURRY_MS: Final = 1000


class SessionPartition:
    """One partition of a session, and the last answer for it."""

    __slots__ = (
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "offset",
        "replica_log_start",
        "told_high_watermark",
        "told_log_start",
        "topic",
    )

    def __init__(self, topic: str | bytes, partition: WantedPartition) -> None:
        self.topic = topic
        self.index = partition.partition
        self.leader_epoch = -1
        self.told_high_watermark = -1
        self.told_log_start = -1
        self.update(partition)

    def update(self, partition: WantedPartition) -> None:
        _, leader_epoch, self.offset, self.last_fetched_epoch, self.replica_log_start, self.max_bytes = partition
        if leader_epoch != self.leader_epoch:
            # A follower that changed leaders while an answer was in flight has dropped that answer.
            self.leader_epoch = leader_epoch
            self.told_high_watermark = -1

    @property
    def key(self) -> Key:
        return self.topic, self.index

    def knows(self, high_watermark: int, log_start: int) -> bool:
        return high_watermark == self.told_high_watermark and log_start == self.told_log_start

    def tell(self, fetched: FetchedPartition) -> bool:
        """Whether the answer must be sent; if so, it is stored as the last one."""
        must = (
            fetched.records is not None
            or fetched.high_watermark != self.told_high_watermark
            or fetched.log_start_offset != self.told_log_start
            or fetched.error_code != _NONE
            or fetched.preferred_read_replica != -1
            or fetched.diverging is not None
        )
        if must:
            # After an error the next good answer must be told too, and after a divergence, which is all that is taken
            # of its answer.
            taken = fetched.error_code == _NONE and fetched.diverging is None
            self.told_high_watermark = fetched.high_watermark if taken else -1
            self.told_log_start = fetched.log_start_offset
        return must


class Session:
    __slots__ = ("created_ms", "epoch", "id", "is_follower", "last_used_ms", "news", "uses_topic_ids", "wanted")

    def __init__(
        self, id: int, wanted: dict[Key, SessionPartition], *, uses_topic_ids: bool, is_follower: bool, now_ms: int
    ) -> None:
        self.id = id
        self.epoch = 1
        self.wanted = wanted
        self.uses_topic_ids = uses_topic_ids
        self.is_follower = is_follower
        self.created_ms = self.last_used_ms = now_ms
        self.news = ChangedPartitions()

    def update(self, request: FetchRequest) -> None:
        news, wanted = self.news, self.wanted
        for topic, partitions in request.topics:
            for partition in partitions:
                key = (topic, partition.partition)
                known = wanted.get(key)
                if known is None:
                    wanted[key] = SessionPartition(topic, partition)
                else:
                    known.update(partition)
                news.asked_for(key)
        for topic, indexes in request.forgotten:
            for index in indexes:
                wanted.pop((topic, index), None)
                news.forgotten((topic, index))

    def close(self) -> None:
        self.news.close()

    def moved_to_end(self, served: Iterable[Key]) -> None:
        """Partitions with records come last in the next fetch, so that no partition starves the others."""
        for key in served:
            known = self.wanted.pop(key, None)
            if known is not None:
                self.wanted[key] = known


class FetchSessions:
    def __init__(self, slots: int = 1000, eviction_ms: int = 120_000) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, Session] = {}
        self._hurry_until_ms = 0

    def leads_more(self, now_ms: int) -> None:
        """This broker leads another partition. Its followers may have fetches waiting here for other partitions, and
        would fetch the new one only after those. Until then no record in it is committed. So waiting fetches are
        answered, and for a moment fetches wait only briefly (`in_a_hurry`)."""
        if now_ms + _HURRY_MS == self._hurry_until_ms:
            return
        self._hurry_until_ms = now_ms + _HURRY_MS
        for session in self._sessions.values():
            if session.is_follower:
                session.news.wake()

    def in_a_hurry(self, now_ms: int) -> bool:
        return now_ms < self._hurry_until_ms

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, request: FetchRequest, version: int, is_follower: bool, now_ms: int
    ) -> tuple[dict[Key, SessionPartition], Session | None, bool]:
        """(partitions to fetch, session or None, whether the answer has only changes). Raises Refused."""
        if version < SESSIONS_FROM:
            return _all_wanted(request), None, False
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self._end(session_id)
            wanted = _all_wanted(request)
            if epoch == FINAL_EPOCH or not wanted:
                return wanted, None, False
            uses_topic_ids = version >= TOPIC_IDS_FROM
            return wanted, self._create(wanted, uses_topic_ids, is_follower, now_ms), False
        session = self._sessions.get(session_id)
        if session is None:
            raise Refused(ErrorCode.fetch_session_id_not_found, f"fetch session {session_id} is not known here")
        if session.epoch != epoch:
            raise Refused(
                ErrorCode.invalid_fetch_session_epoch,
                f"fetch session {session_id} is at epoch {session.epoch}, the request at {epoch}",
            )
        if session.uses_topic_ids != (version >= TOPIC_IDS_FROM):
            raise Refused(ErrorCode.fetch_session_topic_id_error, f"fetch session {session_id} mixes names and ids")
        session.update(request)
        if not session.wanted:
            self._end(session_id)
            return {}, None, False
        session.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        session.last_used_ms = now_ms
        return session.wanted, session, True

    def _end(self, session_id: int) -> None:
        ended = self._sessions.pop(session_id, None)
        if ended is not None:
            ended.close()

    def _create(
        self, wanted: dict[Key, SessionPartition], uses_topic_ids: bool, is_follower: bool, now_ms: int
    ) -> Session | None:
        if len(self._sessions) >= self._slots and not self._evict(len(wanted), is_follower, now_ms):
            return None
        while True:
            session_id = random.randint(1, 0x7FFFFFFF)
            if session_id not in self._sessions:
                break
        session = Session(session_id, wanted, uses_topic_ids=uses_topic_ids, is_follower=is_follower, now_ms=now_ms)
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int, is_follower: bool, now_ms: int) -> bool:
        """Evicts a session to make room for one of `size` partitions, if the rules allow it."""
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            self._end(oldest.id)
            return True
        candidates = [s for s in self._sessions.values() if is_follower or not s.is_follower]
        if not candidates:
            return False
        smallest = min(candidates, key=lambda s: (s.is_follower, len(s.wanted), s.last_used_ms))
        outranked = is_follower and not smallest.is_follower
        if outranked or (len(smallest.wanted) < size and now_ms - smallest.created_ms > self._eviction_ms):
            self._end(smallest.id)
            return True
        return False


def _all_wanted(request: FetchRequest) -> dict[Key, SessionPartition]:
    return {
        (topic, partition.partition): SessionPartition(topic, partition)
        for topic, partitions in request.topics
        for partition in partitions
    }
