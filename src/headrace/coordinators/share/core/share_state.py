"""The durable state of share partitions: one shard of `__share_group_state`, as Kafka's share coordinator keeps it.

The state of a share partition is a snapshot and the updates since then. After a number of updates the shard writes a
new snapshot; records before the oldest snapshot in use can be deleted from the log. Two epochs fence: the state epoch
(an administrator reset the share partition) and the leader epoch (another broker leads the partition now).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from headrace.coordinators.codec import share_state as codec
from headrace.coordinators.codec.primitives import UnreadableRecord, key_type
from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot, ShareUpdate, StateBatch
from headrace.coordinators.runtime.result import Answer, Result
from headrace.coordinators.share.core.runs import RecordState, Run, Runs
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.records.builder import Record

NOT_STARTED = -1


@dataclass(frozen=True, slots=True)
class StoredState:
    snapshot: ShareSnapshot
    updates: int = 0
    snapshot_record_offset: int = -1


class ShareStateShard:
    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.states: dict[ShareKey, StoredState] = {}
        self._updates_per_snapshot = updates_per_snapshot

    # Operations

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, now_ms: int) -> Result:
        known = self.states.get(key)
        if known is not None and state_epoch < known.snapshot.state_epoch:
            raise Refused(ErrorCode.fenced_state_epoch, f"state epoch {state_epoch} < {known.snapshot.state_epoch}")
        epoch = 0 if known is None else known.snapshot.snapshot_epoch + 1
        snapshot = ShareSnapshot(epoch, state_epoch, -1, start_offset, now_ms, now_ms, (), 0)
        return Result([_snapshot_record(key, snapshot)])

    def read(self, key: ShareKey, leader_epoch: int, now_ms: int) -> Result:
        """The reply is the current snapshot. The first read of a new leader also fences the old leader."""
        known = self.states.get(key)
        if known is None:
            raise _not_begun("read")
        self._check(known, leader_epoch, None)
        if leader_epoch <= known.snapshot.leader_epoch:
            return Result(reply=known.snapshot)
        snapshot = replace(known.snapshot, leader_epoch=leader_epoch, write_timestamp_ms=now_ms)
        update = ShareUpdate(
            snapshot.snapshot_epoch, leader_epoch, snapshot.start_offset, (), snapshot.delivery_complete_count
        )
        return Result([_update_record(key, update)], reply=snapshot)

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        complete_count: int,
        batches: Sequence[StateBatch],
        now_ms: int,
    ) -> Result:
        known = self.states.get(key)
        if known is None:
            raise _not_begun("written")
        self._check(known, leader_epoch, state_epoch)
        # A leader that got no answer takes its change back, although it may be written. If the start went back with it,
        # the records that were finished between would come again.
        start = max(start_offset, known.snapshot.start_offset)
        if known.updates + 1 < self._updates_per_snapshot:
            update = ShareUpdate(known.snapshot.snapshot_epoch, leader_epoch, start, tuple(batches), complete_count)
            return Result([_update_record(key, update)])
        snapshot = replace(
            known.snapshot,
            snapshot_epoch=known.snapshot.snapshot_epoch + 1,
            leader_epoch=leader_epoch,
            start_offset=start,
            write_timestamp_ms=now_ms,
            batches=_merged(known.snapshot.batches, batches, start),
            delivery_complete_count=complete_count,
        )
        return Result([_snapshot_record(key, snapshot)])

    def delete(self, key: ShareKey) -> Result:
        if key not in self.states:
            return Result()
        return Result([Record(codec.share_key(codec.SHARE_SNAPSHOT, key), None)])

    def summary(self, key: ShareKey) -> ShareSnapshot | None:
        known = self.states.get(key)
        return None if known is None else known.snapshot

    def forget_topics(self, topic_ids: set[uuid.UUID]) -> Result:
        gone = [key for key in self.states if key.topic_id in topic_ids]
        return Result([Record(codec.share_key(codec.SHARE_SNAPSHOT, key), None) for key in gone])

    def first_needed_offset(self, end_offset: int) -> int:
        """No snapshot in use needs the records below."""
        return min((state.snapshot_record_offset for state in self.states.values()), default=end_offset)

    def _check(self, known: StoredState, leader_epoch: int, state_epoch: int | None) -> None:
        if 0 <= leader_epoch < known.snapshot.leader_epoch:
            raise Refused(ErrorCode.fenced_leader_epoch, f"leader epoch {leader_epoch}: another broker leads by now")
        if state_epoch is not None and -1 != state_epoch < known.snapshot.state_epoch:
            raise Refused(
                ErrorCode.fenced_state_epoch, f"state epoch {state_epoch}: it is {known.snapshot.state_epoch}"
            )

    # Replay

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int, producer_epoch: int) -> None:
        try:
            kind, share_key = key_type(key), codec.read_share_key(key)
            if value is None:
                self.states.pop(share_key, None)
            elif kind == codec.SHARE_SNAPSHOT:
                self.states[share_key] = StoredState(codec.read_share_snapshot_value(value), 0, offset)
            elif kind == codec.SHARE_UPDATE and share_key in self.states:
                self._replay_update(share_key, codec.read_share_update_value(value))
        except (UnreadableRecord, UnicodeDecodeError):
            return  # of a newer release

    def _replay_update(self, share_key: ShareKey, update: ShareUpdate) -> None:
        known = self.states[share_key]
        snapshot = replace(
            known.snapshot,
            leader_epoch=max(update.leader_epoch, known.snapshot.leader_epoch),
            start_offset=update.start_offset,
            batches=_merged(known.snapshot.batches, update.batches, update.start_offset),
            delivery_complete_count=update.delivery_complete_count,
        )
        self.states[share_key] = replace(known, snapshot=snapshot, updates=known.updates + 1)

    def replay_end_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        """No transaction writes here."""

    def loaded(self, now_ms: int) -> Result:
        return Result()

    def unloaded(self) -> list[Answer]:
        return []

    def refuse_waiting(self) -> list[Answer]:
        return []


def _not_begun(what: str) -> Refused:
    return Refused(ErrorCode.invalid_request, f"a share partition without state cannot be {what}: initialize it first")


def _merged(known: Sequence[StateBatch], newer: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """The newer state of an offset wins; offsets below the start are dropped."""
    runs = Runs()
    for first, last, state, count in (*known, *newer):
        if last >= start_offset:
            runs.put(Run(max(first, start_offset), last, RecordState(state), count))
    runs.join()
    return tuple(StateBatch(run.first, run.last, int(run.state), run.deliveries) for run in runs)


def _snapshot_record(key: ShareKey, snapshot: ShareSnapshot) -> Record:
    return Record(codec.share_key(codec.SHARE_SNAPSHOT, key), codec.share_snapshot_value(snapshot))


def _update_record(key: ShareKey, update: ShareUpdate) -> Record:
    return Record(codec.share_key(codec.SHARE_UPDATE, key), codec.share_update_value(update))
