"""Random histories of committed offsets, plain and transactional, against a model that reads the whole history anew.

Whatever the order of commits, markers and tombstones, also over a change of coordinator and over a log that was
compacted: what counts for a partition is its last record, of those whose transaction has committed.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.offsets.requests import UNSTABLE, CommitRequest
from headrace.records.builder import Record
from headrace.wire.offset_commit import PartitionCommit
from tests.support.group_driver import GroupDriver, topic_id

TOPICS = ("orders", "other")
PLACES = [("orders", 0), ("orders", 1), ("other", 0)]
PLAIN = -1
places = st.sampled_from(PLACES)
producers = st.integers(7, 8)


class OffsetHistory(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.driver = GroupDriver()
        self.offset = 0
        # (place, producer, offset) for a commit, with None for a tombstone; (None, producer, commit) for a marker.
        self.events: list[tuple[tuple[str, int] | None, int, int | bool | None]] = []

    # What happens

    def _request(self, place: tuple[str, int]) -> CommitRequest:
        self.offset += 1
        commits = [PartitionCommit(place[1], self.offset, -1, "")]
        return CommitRequest("g", "", None, -1, [TopicCommit(place[0], topic_id(place[0]), commits)])

    @rule(place=places)
    def commits(self, place: tuple[str, int]) -> None:
        self.driver.apply(self.driver.shard.commit_offsets(self._request(place), self.driver.now_ms))
        self.events.append((place, PLAIN, self.offset))

    @rule(place=places, producer=producers)
    def commits_in_a_transaction(self, place: tuple[str, int], producer: int) -> None:
        request = self._request(place)
        self.driver.apply(self.driver.shard.commit_transactional_offsets(request, (producer, 0), self.driver.now_ms))
        self.events.append((place, producer, self.offset))

    @rule(producer=producers, commit=st.booleans())
    def a_transaction_ends(self, producer: int, commit: bool) -> None:
        self.driver.end_transaction(producer, 0, commit=commit)
        self.events.append((None, producer, commit))

    @rule(what=st.sampled_from(["deleted", "topic", "moves", "compacted"]), place=places)
    def something_rare_happens(self, what: str, place: tuple[str, int]) -> None:
        if what == "deleted" and "g" in self.driver.shard.groups:
            self.driver.apply(self.driver.shard.offsets.delete("g", [(place[0], [place[1]])]))
            self.events.append((place, PLAIN, None))
        elif what == "topic":
            self.driver.apply(self.driver.shard.offsets.topics_deleted({place[0]: topic_id(place[0])}))
            self.events += [(each, PLAIN, None) for each in PLACES if each[0] == place[0]]
        elif what == "moves":
            self.driver.reload()
        elif what == "compacted":
            self._load_compacted()

    def _load_compacted(self) -> None:
        log = self.driver.log
        first_open = min((at for at in range(len(log)) if self._outcome(log, at) is None), default=len(log))
        last = {entry[0].key: at for at, entry in enumerate(log[:first_open]) if self._outcome(log, at)}
        self.driver.shard = self.driver._fresh()
        for at, (record, producer, epoch) in enumerate(log):
            if record.key == b"":
                self.driver.shard.replay_end_marker(producer, epoch, record.value == b"commit")
            elif at >= first_open or last.get(record.key) == at:
                self.driver.shard.replay(record.key or b"", record.value, at, producer, epoch)

    @staticmethod
    def _outcome(log: list[tuple[Record, int, int]], at: int) -> bool | None:
        """Whether the record counts; None: its transaction is open."""
        record, producer, _ = log[at]
        if record.key == b"":
            return False
        if producer < 0:
            return True
        later = (r.value == b"commit" for r, p, _ in log[at:] if r.key == b"" and p == producer)
        return next(later, None)

    # What must hold

    def _expected(self, place: tuple[str, int]) -> tuple[int, bool]:
        """The committed offset, and whether an open transaction may still change it."""
        committed, is_pending = -1, False
        for at, (where, producer, offset) in enumerate(self.events):
            if where != place:
                continue
            if offset is None:
                committed, is_pending = -1, False
                continue
            ended = [commit for w, p, commit in self.events[at:] if w is None and p == producer]
            if producer != PLAIN and not ended:
                is_pending = True
            elif producer == PLAIN or ended[0]:
                committed = int(offset)
        return committed, is_pending

    @invariant()
    def everyone_finds_what_was_committed(self) -> None:
        if getattr(self, "driver", None) is None:
            return
        asked = [(topic, [0, 1]) for topic in TOPICS]
        found = self.driver.shard.offsets.fetch("g", asked, require_stable=False)
        stable = self.driver.shard.offsets.fetch("g", asked, require_stable=True)
        for topic, partition in PLACES:
            committed, is_pending = self._expected((topic, partition))
            value = found[topic][partition].value
            assert (-1 if value is None else value.offset) == committed
            assert stable[topic][partition] == (UNSTABLE if is_pending else found[topic][partition])
        has_pending = any(self._expected(place)[1] for place in PLACES)
        assert self.driver.shard.offsets.offsets.has_open_transactions("g") == has_pending


TestOffsetHistory = OffsetHistory.TestCase
TestOffsetHistory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
