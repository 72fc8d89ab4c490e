"""Records that the cluster committed and acknowledged, and the invariants that are checked at every change.

`ExpectedPartition` holds, for one partition of one topic id, the sequence of committed records (below the high
watermark of some replica). A recreated topic has a new topic id, so it starts with an empty sequence.

- Two replicas never commit different records at one offset.
- An acknowledged record is committed, and every member of the stored in-sync set has it at that moment.
- A broker acknowledges only while its session with the store is alive.
- The leader's high watermark is never above the log end offset of a stored in-sync or eligible leader replica.
- Every stored in-sync or eligible leader replica has all committed records, except records deleted on request.
- A stored leader is in the in-sync set. It was an in-sync or eligible leader replica before the election, with two
  exceptions: all these replicas restarted uncleanly (the last known leader may then lead, and may lack records lost in
  a power cut), or the topic allows unclean elections and none of these replicas is alive.
- A replica whose log was lost with a disk does not lead with an empty one, unless an operator asked for the election.
- A new leader has all committed records. In the two exceptions the expected sequence is truncated to the new leader's.
- The latest offset that a leader returns is never below the end of the committed records (KIP-207).
- No log starts above the offset up to which a client asked to delete records.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from headrace.cluster import codecs
from headrace.cluster.core.image import NO_LEADER, BrokerInfo, PartitionInfo
from headrace.coordination import paths
from headrace.coordination.core.tree import Tree
from headrace.coordination.store import Create, Delete, Op, Set
from headrace.kernel.errors import ErrorCode
from headrace.replication.partition import Partition
from headrace.testing.simulation.log import Entry, SimulatedLog

PartitionName = tuple[str, int]
PartitionKey = tuple[uuid.UUID, int]


class InvariantBroken(AssertionError):
    pass


@dataclass
class ExpectedPartition:
    """The committed and acknowledged records of one partition."""

    committed: list[Entry] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)  # offset → value
    deleted_to: int = 0  # a client asked to delete the records below this offset
    may_lack: set[int] = field(default_factory=set)  # epochs of leaders that may lack committed records
    excused_next: int | None = None  # such a leader, elected but not leading yet
    excused: int = 0  # records lost through such leaders

    def missing_in(self, log: SimulatedLog | None) -> int | None:
        """The first committed offset that this log should hold and does not."""
        if log is None:
            return 0 if self.committed else None
        base, end = log.base_offset, len(self.committed)
        first = max(log.log_start_offset, base)
        held = log.entries[first - base : max(0, end - base)]
        wanted = self.committed[first:]
        if held == wanted:
            return None
        differs = (at for at, (mine, theirs) in enumerate(zip(held, wanted, strict=False)) if mine != theirs)
        return first + next(differs, len(held))


@dataclass
class History:
    """`log_of(broker, name)` and `session_lives(broker)` read the simulated cluster. `stored` and `topic_id` read the
    store; for them a topic that is marked for deletion does not exist."""

    log_of: Callable[[int, PartitionName], SimulatedLog | None]
    session_lives: Callable[[int], bool]
    stored: Callable[[PartitionName], PartitionInfo | None]
    topic_id: Callable[[str], uuid.UUID | None]
    say: Callable[[str], None]
    # Called in addition to raising, because the real code may catch the exception and continue.
    on_broken: Callable[[InvariantBroken], None] = lambda broken: None
    expected_partitions: dict[PartitionKey, ExpectedPartition] = field(default_factory=dict)
    # Brokers that lost records, until they are registered again; each with its newest registration at that time.
    damaged: dict[int, int] = field(default_factory=dict)
    registrations: dict[int, bool] = field(default_factory=dict)  # broker epoch → whether it was a clean start
    allow_unclean: Collection[str] = ()  # topics with unclean elections
    asked_for: set[PartitionName] = field(default_factory=set)  # an operator asks for an unclean election
    unclean_elections: int = 0
    acknowledgements: int = 0
    reads: int = 0

    @property
    def excused(self) -> int:
        return sum(expected.excused for expected in self.expected_partitions.values())

    def damage(self, broker: int) -> None:
        """The broker is down, or its disk failed. The controller may not have processed its last registration yet."""
        self.damaged[broker] = max(self.registrations, default=0)

    def _fail(self, message: str) -> NoReturn:
        broken = InvariantBroken(message)
        self.on_broken(broken)
        raise broken

    def expected(self, topic_id: uuid.UUID | None, index: int) -> ExpectedPartition:
        assert topic_id is not None
        return self.expected_partitions.setdefault((topic_id, index), ExpectedPartition())

    def _current(self, topic: str, topic_id: uuid.UUID | None, index: int) -> PartitionInfo | None:
        """The stored state, if the stored topic has this topic id."""
        return self.stored((topic, index)) if self.topic_id(topic) == topic_id else None

    def _held(self, broker: int, name: PartitionName, topic_id: uuid.UUID | None) -> SimulatedLog | None:
        log = self.log_of(broker, name)
        return log if log is not None and log.topic_id == topic_id else None

    # Logs

    def marked(self, log: SimulatedLog) -> None:
        """A replica's high watermark moved."""
        name = (log.topic, log.partition)
        expected = self.expected(log.topic_id, log.partition)
        info = self._current(log.topic, log.topic_id, log.partition)
        if (
            info is not None
            and expected.excused_next == log.broker == info.leader
            and log.leader_epochs.latest == info.leader_epoch
        ):
            self._truncate_to_leader(expected, log)  # it advances the high watermark as soon as it leads
        committed = expected.committed
        for offset in range(min(log.checked_to, len(committed)), log.high_watermark):
            entry = log.entry(offset)
            if entry is None:
                self._fail(f"broker {log.broker} {name}: high watermark past its own log at {offset}")
            if offset < len(committed):
                if committed[offset] != entry:
                    self._fail(
                        f"broker {log.broker} commits {entry} at {offset} of {name}, "
                        f"but {committed[offset]} was committed"
                    )
            else:
                committed.append(entry)
        log.checked_to = max(log.checked_to, log.high_watermark)
        if log.log_start_offset > expected.deleted_to:
            self._fail(f"broker {log.broker} {name} begins at {log.log_start_offset}, deleted is {expected.deleted_to}")
        self._check_mark(log, name, info)

    def _check_mark(self, log: SimulatedLog, name: PartitionName, info: PartitionInfo | None) -> None:
        if info is None or info.leader != log.broker or log.broker in self.damaged:
            return
        for member in (*info.isr, *info.eligible):
            held = self._held(member, name, log.topic_id)
            end = 0 if held is None else held.log_end_offset
            if end < log.high_watermark and member not in self.damaged:
                which = "in-sync" if member in info.isr else "eligible"
                self._fail(
                    f"{name}: the leader's mark {log.high_watermark} is past the end {end} of {which} replica {member}"
                )

    # Clients

    def answered(self, broker_id: int, partition: Partition, first: int, values: list[int], code: ErrorCode) -> None:
        if code is not ErrorCode.none:
            return
        name = (partition.topic, partition.index)
        if not self.session_lives(broker_id):
            self._fail(f"broker {broker_id} acknowledged {values} on {name} after its session had ended")
        expected = self.expected(partition.topic_id, partition.index)
        info = self._current(partition.topic, partition.topic_id, partition.index)
        for offset, value in enumerate(values, first):
            if offset >= len(expected.committed) or expected.committed[offset].value != value:
                self._fail(f"{value} at {offset} of {name} was acknowledged but not committed")
            for member in () if info is None else info.isr:
                held = self._held(member, name, partition.topic_id)
                entry = None if held is None else held.entry(offset)
                deleted = held is not None and offset < held.log_start_offset
                if (entry is None or entry.value != value) and member not in self.damaged and not deleted:
                    self._fail(
                        f"{value} at {offset} of {name} was acknowledged by {broker_id} "
                        f"in epoch {partition.leader_epoch}, but in-sync replica {member} does not hold it ({info})"
                    )
            expected.acknowledged[offset] = value
        self.acknowledgements += len(values)
        self.say(f"ack {name} {first} {values} by {broker_id}")

    def deleting(self, partition: Partition, offset: int) -> None:
        """A client asks to delete the records below `offset`."""
        expected = self.expected(partition.topic_id, partition.index)
        expected.deleted_to = max(expected.deleted_to, offset)

    def read(self, topic_id: uuid.UUID, index: int, offset: int, epoch: int, value: int) -> None:
        expected = self.expected(topic_id, index)
        if expected.excused:
            return
        if offset >= len(expected.committed) or expected.committed[offset] != Entry(epoch, value):
            self._fail(f"a consumer read {value} at {offset} of partition {index}, which was never committed")
        self.reads += 1

    def latest_named(self, broker: int, partition: Partition, offset: int) -> None:
        """A leader returned its latest offset. A replaced leader that does not know it yet may return an old one."""
        info = self._current(partition.topic, partition.topic_id, partition.index)
        committed = self.expected(partition.topic_id, partition.index).committed
        if info is not None and info.leader_epoch == partition.leader_epoch and offset < len(committed):
            self._fail(
                f"broker {broker} says that {partition.topic}-{partition.index} ends at {offset}, "
                f"but {len(committed)} records are committed"
            )

    # Leadership

    def led(self, broker: int, partition: Partition) -> None:
        """A broker starts to lead."""
        name = (partition.topic, partition.index)
        info = self._current(partition.topic, partition.topic_id, partition.index)
        if info is None or info.leader_epoch != partition.leader_epoch:
            return  # it acts on an outdated cluster image; followers reject its epoch
        log = self._held(broker, name, partition.topic_id)
        assert log is not None, f"broker {broker} leads {name} with a log of another topic, or none"
        expected = self.expected(partition.topic_id, partition.index)
        good = expected.missing_in(log)
        end = len(expected.committed)
        self.say(f"lead {name} {broker} epoch {partition.leader_epoch} end {log.log_end_offset} of {end}")
        if good is not None and partition.leader_epoch not in expected.may_lack:
            self._fail(
                f"broker {broker} leads {name} in epoch {partition.leader_epoch} with a log of {log.log_end_offset}, "
                f"which lacks the committed {expected.committed[good]} at {good}"
            )
        if log.replaces_lost and expected.committed and not log.log_end_offset and name not in self.asked_for:
            self._fail(f"broker {broker} leads {name} with an empty log instead of the one on a lost disk")
        self._truncate_to_leader(expected, log)

    def _truncate_to_leader(self, expected: ExpectedPartition, log: SimulatedLog) -> None:
        """Removes and counts the committed records that this leader lacks: they are lost."""
        expected.excused_next = None
        good = expected.missing_in(log)
        if good is None:
            return
        log.checked_to = min(log.checked_to, good)
        expected.excused += len(expected.committed) - good
        del expected.committed[good:]
        for offset in [at for at in expected.acknowledged if at >= good]:
            del expected.acknowledged[offset]

    def storing(self, tree: Tree, ops: Sequence[Op], transaction_id: int) -> None:
        """Called before the store applies these operations."""
        unclean: set[int] = set()
        known = dict(self._accepted(tree))
        alive = {broker for broker, info in known.items() if not (info.fenced or info.shutting_down)}
        for op in ops:
            if isinstance(op, Delete) and op.path.startswith(paths.ACCEPTED_BROKERS + "/"):
                alive.discard(int(op.path.rsplit("/", 1)[1]))
            elif isinstance(op, Create | Set) and op.path.startswith(paths.BROKER_IDS + "/"):
                _, clean = codecs.decode_registration(int(op.path.rsplit("/", 1)[1]), op.data, transaction_id)
                self.registrations[transaction_id] = clean
            elif isinstance(op, Create | Set) and op.path.startswith(paths.ACCEPTED_BROKERS + "/"):
                accepted = codecs.decode_accepted(op.data)
                before = known.get(accepted.id)
                alive.discard(accepted.id)
                if not (accepted.fenced or accepted.shutting_down):
                    alive.add(accepted.id)
                if before is None or before.epoch != accepted.epoch:
                    if accepted.epoch > self.damaged.get(accepted.id, -1):
                        self.damaged.pop(accepted.id, None)
                    if not self.registrations[accepted.epoch]:
                        unclean.add(accepted.id)
        for name, states in _states_set(ops).items():
            topic_path = paths.topic(name[0])
            if paths.partition_state(*name) not in tree.nodes:
                continue  # created in this transaction: no replica has records yet
            topic_data = next((op.data for op in reversed(ops) if isinstance(op, Set) and op.path == topic_path), None)
            old_topic = tree.nodes[topic_path].data
            state = decode_state(old_topic, name[1], tree.nodes[paths.partition_state(*name)].data)
            for data in states:
                after = decode_state(topic_data or old_topic, name[1], data)
                self._check_state(name, state, after, unclean, alive)
                state = after
            self._check_members(name, state)

    @staticmethod
    def _accepted(tree: Tree) -> Iterator[tuple[int, BrokerInfo]]:
        for broker in tree.children.get(paths.ACCEPTED_BROKERS, ()):
            yield int(broker), codecs.decode_accepted(tree.nodes[paths.accepted_broker(int(broker))].data)

    def _check_state(
        self, name: PartitionName, before: PartitionInfo, after: PartitionInfo, unclean: set[int], alive: set[int]
    ) -> None:
        if after.leader != NO_LEADER and after.leader not in after.isr:
            self._fail(f"{name}: leader {after.leader} is not in the in-sync set {after.isr}")
        if (after.leader_epoch, after.partition_epoch) <= (before.leader_epoch, before.partition_epoch):
            self._fail(f"{name}: the stored state goes back from {before} to {after}")
        self.say(f"store {name} leader {after.leader} epoch {after.leader_epoch} isr {after.isr} elr {after.eligible}")
        expected = self.expected(self.topic_id(name[0]), name[1])
        if after.leader != NO_LEADER and after.leader_epoch != before.leader_epoch:
            self._check_election(name, expected, before, after, {*before.isr, *before.eligible} - unclean, alive)

    def _check_members(self, name: PartitionName, info: PartitionInfo) -> None:
        if not {*info.isr, *info.eligible} <= set(info.replicas):
            self._fail(f"{name}: in sync or eligible, but not a replica: {info}")
        expected = self.expected(self.topic_id(name[0]), name[1])
        if expected.excused_next is not None:
            return  # not known before the new leader leads
        for member in (*info.isr, *info.eligible):
            missing = expected.missing_in(self._held(member, name, self.topic_id(name[0])))
            if missing is not None and member not in self.damaged:
                self._fail(f"{name}: {member} may lead without the committed record at {missing}: {info}")

    def _check_election(
        self,
        name: PartitionName,
        expected: ExpectedPartition,
        before: PartitionInfo,
        after: PartitionInfo,
        fit: set[int],
        alive: set[int],
    ) -> None:
        if after.leader in fit:
            if expected.excused_next == after.leader:  # elected before, but it never led in that epoch
                expected.may_lack.add(after.leader_epoch)
            return
        done = before.is_reassigning and not after.is_reassigning and after.leader not in before.removing
        if done or (before.leader in after.isr and before.leader != after.leader):
            return  # the old leader added it to the in-sync set; `_check_members` checks its log
        if name[0] in self.allow_unclean and not (fit & alive) - self.damaged.keys():
            self.unclean_elections += 1
        elif fit:
            self._fail(f"{name}: {after.leader} was elected, though only {fit} may lead ({before})")
        expected.may_lack.add(after.leader_epoch)
        expected.excused_next = after.leader


def _states_set(ops: Sequence[Op]) -> dict[PartitionName, list[bytes]]:
    """The states that a transaction stores. It may change a partition more than once."""
    found: dict[PartitionName, list[bytes]] = {}
    for op in ops:
        if isinstance(op, Set) and op.path.endswith("/state") and op.path.startswith(paths.TOPICS + "/"):
            parts = op.path.split("/")
            found.setdefault((parts[3], int(parts[5])), []).append(op.data)
    return found


def decode_state(topic_data: bytes, index: int, data: bytes) -> PartitionInfo:
    topic = codecs.decode_topic(topic_data)
    assert topic is not None
    return codecs.decode_partition(index, topic[1], data)
