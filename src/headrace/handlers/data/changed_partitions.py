"""The partitions of a fetch session that may have something new. A check looks only at those.

A follower or consumer of thousands of partitions fetches again after every batch of one of them. Checking all of them
each time would cost the leader more than the batch. So a partition without news gets a watch here, and an append, a
commit, a deletion or a change of leader marks it as changed. A partition stays marked until a check finds no records,
no error, and only offsets that the client knows. Watches are hints: every two seconds a fetch of the session checks all
partitions. (A repeated check of a waiting fetch does not: it carries no new state of the follower, so a follower that
left the in-sync set of an idle partition would never be found to have caught up.)

A fetch without a session (librdkafka) names all its partitions every time, and each check looks at all of them.

A watch that fires twice between two checks removes itself (the next check adds it again), so a session whose client is
gone costs nothing. Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from headrace.handlers.data.fetch_keys import Key
from headrace.replication.waiters import ReaderSet

_LOOK_AT_ALL_MS: Final = 2000


class ChangedPartitions:
    __slots__ = (
        "_fresh",
        "_has_waited",
        "_looked_at_all_ms",
        "_missing_bytes",
        "_reads_committed",
        "_wake",
        "_watches",
    )

    def __init__(self) -> None:
        self._fresh: dict[Key, None] = {}
        self._watches: dict[Key, _Watch] = {}
        self._looked_at_all_ms = -_LOOK_AT_ALL_MS
        self._missing_bytes = 0
        self._reads_committed = False
        self._has_waited = False
        self._wake: Callable[[], None] | None = None

    def asked_for(self, key: Key) -> None:
        """The client's fetch offset moved, or the partition is new in the session."""
        self._fresh[key] = None

    def forgotten(self, key: Key) -> None:
        self._fresh.pop(key, None)
        self.unwatch(key)

    def take(self, all_keys: Iterable[Key], now_ms: int) -> list[Key]:
        """The partitions to check now. The caller puts a partition back if it still has news (`not_quiet`)."""
        is_again, self._has_waited = self._has_waited, False
        if not is_again and now_ms - self._looked_at_all_ms >= _LOOK_AT_ALL_MS:
            self._looked_at_all_ms = now_ms
            self._fresh.clear()
            return list(all_keys)
        fresh, self._fresh = self._fresh, {}
        return list(fresh)

    def not_quiet(self, key: Key) -> None:
        self._fresh[key] = None

    def watch(self, key: Key, place: ReaderSet) -> None:
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = _Watch(self, key)
        watch.stand_at(place)

    def unwatch(self, key: Key) -> None:
        """The partition cannot be read: it stays marked as long as checks find that."""
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.leave()

    @property
    def is_watching(self) -> bool:
        return bool(self._watches)

    def wait(self, missing_bytes: int, wake: Callable[[], None], *, reads_committed: bool = False) -> None:
        """Wakes once, when enough bytes may be readable, or a leader changed. With `reads_committed` also when a
        transaction ends."""
        self._missing_bytes = missing_bytes
        self._reads_committed = reads_committed
        self._has_waited = True
        self._wake = wake

    def stop_waiting(self) -> None:
        self._wake = None

    def wake(self) -> None:
        """Wakes the waiting fetch."""
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def close(self) -> None:
        self._wake = None
        for watch in self._watches.values():
            watch.leave()
        self._watches.clear()

    # What the watches say

    def _grew(self, key: Key, size_bytes: int) -> bool:
        """False if there was no check since the last call."""
        known = key in self._fresh
        self._fresh[key] = None
        wake = self._wake
        if wake is None:
            return not known
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self._wake = None
            wake()
        return True

    def _transaction_ended(self, key: Key) -> None:
        if self._reads_committed and self._wake is not None:
            self._changed(key)

    def _changed(self, key: Key) -> None:
        self._fresh[key] = None
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()


class _Watch:
    __slots__ = ("_key", "_news", "_place")

    def __init__(self, news: ChangedPartitions, key: Key) -> None:
        self._news = news
        self._key = key
        self._place: ReaderSet | None = None

    def stand_at(self, place: ReaderSet) -> None:
        if self._place is not place:
            self.leave()
            self._place = place
        place.waiting[self] = None

    def leave(self) -> None:
        if self._place is not None:
            self._place.waiting.pop(self, None)
            self._place = None

    def grew(self, size_bytes: int) -> None:
        if not self._news._grew(self._key, size_bytes):
            self.leave()

    def marked(self) -> None:
        self.grew(0)

    def transaction_ended(self) -> None:
        self._news._transaction_ended(self._key)

    def wake(self) -> None:
        self._news._changed(self._key)
