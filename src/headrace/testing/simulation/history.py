"""What the cluster promised, and the invariants that are checked whenever something moves.

The ghost: per partition, the one sequence of records that was ever committed (below some replica's high watermark).

- Two replicas never commit different records at one offset.
- What is acknowledged is committed, and on every member of the stored in-sync set at that moment.
- A broker acknowledges only while its session with the store lives.
- The leader's high watermark never passes what a member of the stored in-sync set holds.
- A stored leader is in its in-sync set, and comes from the in-sync or eligible replicas before it, unless every one of
  those has restarted uncleanly: then the last known leader may come back (and may lack what a power cut took).
- A new leader holds everything committed, but for that last case, in which the ghost is cut back to what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from headrace.cluster import codecs
from headrace.cluster.core.image import NO_LEADER, PartitionInfo
from headrace.coordination import paths
from headrace.coordination.core.tree import Tree
from headrace.coordination.store import Create, Op, Set
from headrace.kernel.errors import ErrorCode
from headrace.replication.partition import Partition
from headrace.testing.simulation.log import Entry, SimulatedLog

PartitionName = tuple[str, int]


class InvariantBroken(AssertionError):
    pass


@dataclass
class History:
    """`log_of(broker, name)` and `session_lives(broker)` look into the simulated cluster."""

    log_of: Callable[[int, PartitionName], SimulatedLog | None]
    session_lives: Callable[[int], bool]
    stored: Callable[[PartitionName], PartitionInfo | None]
    say: Callable[[str], None]
    # Told as well as raised: the real code survives faults of its parts, and would survive this one.
    on_broken: Callable[[InvariantBroken], None] = lambda broken: None
    committed: dict[PartitionName, list[Entry]] = field(default_factory=dict)
    acknowledged: dict[PartitionName, dict[int, int]] = field(default_factory=dict)
    # (partition, leader epoch) of leaders that came back although they may lack records.
    last_known: set[tuple[PartitionName, int]] = field(default_factory=set)
    _excused_next: dict[PartitionName, int] = field(default_factory=dict)  # the last known leader that has yet to lead
    damaged: set[int] = field(default_factory=set)  # brokers after a power cut, until the controller knows them anew
    registrations: dict[int, bool] = field(default_factory=dict)  # broker epoch → whether it was a clean start
    excused: int = 0
    acknowledgements: int = 0
    reads: int = 0

    def _fail(self, message: str) -> NoReturn:
        broken = InvariantBroken(message)
        self.on_broken(broken)
        raise broken

    # ---- logs -----------------------------------------------------------------------------------------------------

    def marked(self, log: SimulatedLog) -> None:
        """A replica's high watermark moved."""
        name = (log.topic, log.partition)
        ghost = self.committed.setdefault(name, [])
        for offset in range(log.checked_to, log.high_watermark):
            entry = log.entry(offset)
            if entry is None:
                self._fail(f"broker {log.broker} {name}: high watermark past its own log at {offset}")
            if offset < len(ghost):
                if ghost[offset] != entry:
                    self._fail(
                        f"broker {log.broker} commits {entry} at {offset} of {name}, but {ghost[offset]} was committed"
                    )
            elif offset == len(ghost):
                ghost.append(entry)
        log.checked_to = max(log.checked_to, log.high_watermark)
        self._check_mark(log, name)

    def _check_mark(self, log: SimulatedLog, name: PartitionName) -> None:
        info = self.stored(name)
        if info is None or info.leader != log.broker or log.broker in self.damaged:
            return
        for member in info.isr:
            held = self.log_of(member, name)
            end = 0 if held is None else held.log_end_offset
            if end < log.high_watermark and member not in self.damaged:
                self._fail(
                    f"{name}: the leader's mark {log.high_watermark} is past the end {end} of in-sync replica {member}"
                )

    # ---- promises -------------------------------------------------------------------------------------------------

    def answered(self, broker: Any, partition: Partition, first: int, values: list[int], code: ErrorCode) -> None:
        if code is not ErrorCode.none:
            return
        name = (partition.topic, partition.index)
        if not self.session_lives(broker.id):
            self._fail(f"broker {broker.id} acknowledged {values} on {name} after its session had ended")
        ghost = self.committed.get(name, [])
        info = self.stored(name)
        for offset, value in enumerate(values, first):
            if offset >= len(ghost) or ghost[offset].value != value:
                self._fail(f"{value} at {offset} of {name} was acknowledged but not committed")
            for member in () if info is None else info.isr:
                held = self.log_of(member, name)
                entry = None if held is None else held.entry(offset)
                if (entry is None or entry.value != value) and member not in self.damaged:
                    self._fail(
                        f"{value} at {offset} of {name} was acknowledged by {broker.id} "
                        f"in epoch {partition.leader_epoch}, but in-sync replica {member} does not hold it ({info})"
                    )
            self.acknowledged.setdefault(name, {})[offset] = value
        self.acknowledgements += len(values)
        self.say(f"ack {name} {first} {values} by {broker.id}")

    def read(self, name: PartitionName, offset: int, epoch: int, value: int) -> None:
        ghost = self.committed.get(name, [])
        if offset >= len(ghost) or ghost[offset] != Entry(epoch, value):
            self._fail(f"a consumer read {value} at {offset} of {name}, which was never committed")
        self.reads += 1

    # ---- leadership -----------------------------------------------------------------------------------------------

    def led(self, broker: int, partition: Partition) -> None:
        """A broker starts to lead."""
        name = (partition.topic, partition.index)
        info = self.stored(name)
        if info is None or info.leader_epoch != partition.leader_epoch:
            return  # it acts on an image that is already history; its followers will not follow
        log = self.log_of(broker, name)
        assert log is not None
        ghost = self.committed.setdefault(name, [])
        held = [log.entry(offset) for offset in range(len(ghost))]
        good = next(
            (at for at, (mine, wanted) in enumerate(zip(held, ghost, strict=True)) if mine != wanted), len(ghost)
        )
        self.say(f"lead {name} {broker} epoch {partition.leader_epoch} end {log.log_end_offset} of {len(ghost)}")
        if good == len(ghost):
            self._excused_next.pop(name, None)
            return
        if (name, partition.leader_epoch) not in self.last_known:
            self._fail(
                f"broker {broker} leads {name} in epoch {partition.leader_epoch} with a log of {log.log_end_offset}, "
                f"which lacks the committed {ghost[good]} at {good}"
            )
        self._excused_next.pop(name, None)
        self.excused += len(ghost) - good
        del ghost[good:]
        promised = self.acknowledged.get(name, {})
        for offset in [at for at in promised if at >= good]:
            del promised[offset]

    def storing(self, tree: Tree, ops: Sequence[Op], transaction_id: int) -> None:
        """The store is about to take these operations."""
        unclean: set[int] = set()
        for op in ops:
            if not isinstance(op, Create | Set):
                continue
            if op.path.startswith(paths.BROKER_IDS + "/"):
                _, clean = codecs.decode_registration(int(op.path.rsplit("/", 1)[1]), op.data, transaction_id)
                self.registrations[transaction_id] = clean
            elif op.path.startswith(paths.ACCEPTED_BROKERS + "/"):
                accepted = codecs.decode_accepted(op.data)
                self.damaged.discard(accepted.id)
                if not self.registrations[accepted.epoch]:
                    unclean.add(accepted.id)
        for op in ops:
            if isinstance(op, Set) and op.path.endswith("/state") and op.path.startswith(paths.TOPICS + "/"):
                parts = op.path.split("/")
                self._check_election((parts[3], int(parts[5])), tree, op, unclean)

    def _check_election(self, name: PartitionName, tree: Tree, op: Set, unclean: set[int]) -> None:
        before = decode_state(tree, name, tree.nodes[op.path].data)
        after = decode_state(tree, name, op.data)
        if after.leader != NO_LEADER and after.leader not in after.isr:
            self._fail(f"{name}: leader {after.leader} is not in the in-sync set {after.isr}")
        if (after.leader_epoch, after.partition_epoch) <= (before.leader_epoch, before.partition_epoch):
            self._fail(f"{name}: the stored state goes back from {before} to {after}")
        self.say(f"store {name} leader {after.leader} epoch {after.leader_epoch} isr {after.isr} elr {after.eligible}")
        if after.leader == NO_LEADER or after.leader_epoch == before.leader_epoch:
            return
        fit = {*before.isr, *before.eligible} - unclean
        if after.leader in fit:
            if self._excused_next.get(name) == after.leader:  # elected before, but it never heard of that
                self.last_known.add((name, after.leader_epoch))
            return
        if fit:
            self._fail(f"{name}: {after.leader} was elected, though only {fit} may lead ({before})")
        self.last_known.add((name, after.leader_epoch))
        self._excused_next[name] = after.leader


def decode_state(tree: Tree, name: PartitionName, data: bytes) -> PartitionInfo:
    topic = codecs.decode_topic(tree.nodes[paths.topic(name[0])].data)
    assert topic is not None
    return codecs.decode_partition(name[1], topic[1], data)
