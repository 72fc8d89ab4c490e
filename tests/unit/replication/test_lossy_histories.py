"""Random histories of one partition whose replicas lose their logs, decided by the real code of controller and brokers.

Three brokers. They are killed, stopped and started, with their log, without it, or with a log that was cut. Sessions
end, replicas catch up, a producer writes with acks=all. No election may give a leader that lacks a committed record
which another broker has, unless a person asks for it. Then it goes to the replica that lacks least.
"""

from __future__ import annotations

import os
import random
import uuid
from dataclasses import dataclass, field, replace

import pytest

from headrace.cluster.core.changes import Change, PartitionChanged, apply
from headrace.cluster.core.image import NO_LEADER, BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.core.losses import NO_LOSSES, Loss, ReplicaLosses
from headrace.controller.core import elections
from headrace.controller.core.elections import TopicRules
from headrace.controller.core.isr_changes import IsrReport, decide_isr
from headrace.controller.core.partition_states import Election
from headrace.replication.lost_logs import LostLogs
from tests.support import effort

IDS = (1, 2, 3)
KEY = (uuid.UUID(int=5), 0)
STEPS = 60
HISTORIES = int(os.environ.get("SEEDS", "20000" if effort.is_long() else "400"))


@dataclass
class Disk:
    """What one broker has: the number of its records (None: no log), and what a person keeps elsewhere."""

    records: int | None = 0
    elsewhere: int | None = None


@dataclass
class Node:
    disk: Disk = field(default_factory=Disk)
    epoch: int = 0
    is_up: bool = True
    stopped_cleanly: bool = False
    is_marked: bool = False  # as incomplete
    lost: LostLogs = field(default_factory=LostLogs)
    # A disk failed since the start.
    has_failed_disk: bool = False

    def losses(self) -> ReplicaLosses:
        at_start = self.lost.losses()
        missing = at_start.missing | ({KEY} if self.has_failed_disk else frozenset())
        return ReplicaLosses(missing, at_start.incomplete, self.has_failed_disk or at_start.is_offline) or NO_LOSSES

    @property
    def serves(self) -> bool:
        return self.is_up and self.disk.records is not None and not self.has_failed_disk


class History:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rules = TopicRules(self.chance.choice((1, 2)), self.chance.random() < 0.3)
        self.nodes = {number: Node(epoch=number) for number in IDS}
        self.epochs = 10
        self.committed = 0
        self.log: list[str] = [f"seed {seed}, {self.rules}"]
        topic = TopicInfo("t", KEY[0], (PartitionInfo(1, 0, 0, IDS, IDS),))
        brokers = {number: BrokerInfo(number, node.epoch, ()) for number, node in self.nodes.items()}
        self.image = ClusterImage(1, brokers=brokers, topics={"t": topic}, topic_names={KEY[0]: "t"})

    @property
    def info(self) -> PartitionInfo:
        return self.image.topics["t"].partitions[0]

    def rules_of(self, _: str) -> TopicRules:
        return self.rules

    def run(self) -> None:
        actions = [self.kill, self.stop, self.start, self.start, self.catch_up, self.catch_up, self.write, self.write]
        actions += [self.end_session, self.report, self.damage, self.damage, self.repair, self.fail_disk, self.elect]
        for _ in range(STEPS):
            action = self.chance.choice(actions)
            number = self.chance.choice(IDS)
            said = action(number, self.nodes[number])
            if said is not None:
                self.log.append(f"{action.__name__} {number} {said} -> {self.info} {self.disks()}")

    def disks(self) -> str:
        return " ".join(f"{number}:{node.disk.records}" for number, node in self.nodes.items())

    # The cluster

    def publish(self, changes: list[Change], *, asked_for: bool = False) -> None:
        before = self.info.leader
        if changes:
            self.image = apply(self.image, changes, self.image.version + 1)
        leader = self.info.leader
        if leader not in (before, NO_LEADER) and not asked_for:
            self.check(leader)
        for number, node in self.nodes.items():
            self.follow(number, node)

    def check(self, leader: int) -> None:
        """The new leader has every committed record, or it lagged behind and a setting allows that it leads."""
        node = self.nodes[leader]
        if not node.is_up or self.image.brokers[leader].epoch != node.epoch:
            return  # the controller does not know yet that it is gone
        assert node.serves, f"broker {leader} leads and has no log: {self.log}"
        if self.rules.unclean_allowed and not self.image.losses_of("t", 0).get(leader):
            self.committed = min(self.committed, node.disk.records or 0)
        assert (node.disk.records or 0) >= self.committed, f"{self.committed} were committed: {self.log}"

    def follow(self, number: int, node: Node) -> None:
        accepted = self.image.brokers.get(number)
        if not node.is_up or accepted is None or accepted.epoch != node.epoch or accepted.fenced:
            return
        if node.disk.records is None:
            is_known = accepted.losses.of(*KEY) is not Loss.NONE
            if node.lost.must_wait(KEY, self.info, number, is_known=is_known):
                return
            node.disk.records = 0
            node.lost.has_log(KEY)
            node.is_marked = True
            assert self.info.leader != number or self.committed == 0, f"an empty log leads: {self.log}"
        if number in self.info.isr:
            node.lost.has_all_records(KEY)
            node.is_marked = False

    def membership(self) -> None:
        present = {
            number: (replace(BrokerInfo(number, node.epoch, ()), losses=node.losses()), node.stopped_cleanly)
            for number, node in self.nodes.items()
            if node.is_up
        }
        self.publish(elections.membership_changed(self.image, present, self.rules_of).changes)

    def register(self, node: Node) -> None:
        self.epochs += 1
        node.epoch = self.epochs
        self.membership()
        node.stopped_cleanly = True  # a later registration of the same process

    # Events; None: not possible now

    def kill(self, number: int, node: Node) -> str | None:
        if not node.is_up:
            return None
        node.is_up, node.stopped_cleanly = False, False
        if self.chance.random() < 0.8:
            self.membership()
        return ""

    def stop(self, number: int, node: Node) -> str | None:
        if not node.is_up or number not in self.image.brokers:
            return None
        self.publish(elections.shutting_down(self.image, number, self.rules_of).changes)
        node.is_up, node.stopped_cleanly = False, not node.has_failed_disk
        self.membership()
        return ""

    def start(self, number: int, node: Node) -> str | None:
        """What the broker finds: see `losses_at_start`."""
        if node.is_up:
            return None
        missing = {KEY: "missing"} if node.disk.records is None else None
        is_cut = node.disk.elsewhere is not None and node.disk.records is not None
        node.is_marked = not missing and (is_cut or node.is_marked)
        incomplete = [KEY] if node.is_marked else []
        is_offline = missing is not None and self.chance.random() < 0.3
        node.lost = LostLogs(missing, incomplete, are_offline=is_offline)
        node.has_failed_disk = False
        node.is_up = True
        self.register(node)
        return "offline" if is_offline else ""

    def damage(self, number: int, node: Node) -> str | None:
        """A person or a disk takes records away while the broker is down."""
        disk = node.disk
        if node.is_up or not disk.records or disk.elsewhere is not None:
            return None
        if sum(other.disk.records == self.committed for other in self.nodes.values()) < 2:
            return None  # nobody could tell a lost record from one that is nowhere
        disk.elsewhere = disk.records
        disk.records = self.chance.choice((None, None, self.chance.randrange(disk.records)))
        return f"to {disk.records}"

    def repair(self, number: int, node: Node) -> str | None:
        """The disk is mounted again before the broker has fetched anything."""
        disk = node.disk
        if node.is_up or disk.elsewhere is None or disk.records is not None:
            return None
        disk.records, disk.elsewhere = disk.elsewhere, None
        return ""

    def fail_disk(self, number: int, node: Node) -> str | None:
        if not node.serves or node.disk.elsewhere is not None or self.chance.random() < 0.5:
            return None
        node.has_failed_disk = True
        self.report(number, node)
        return ""

    def end_session(self, number: int, node: Node) -> str | None:
        if not node.is_up:
            return None
        self.register(node)
        return ""

    def report(self, number: int, node: Node) -> str | None:
        accepted = self.image.brokers.get(number)
        if not node.is_up or accepted is None or accepted.epoch != node.epoch:
            return None
        self.publish(elections.losses_reported(self.image, number, node.losses(), self.rules_of).changes)
        return ""

    def catch_up(self, number: int, node: Node) -> str | None:
        leader = self.nodes.get(self.info.leader)
        if leader is None or leader is node or not leader.serves or not node.serves:
            return None
        node.disk.records, node.disk.elsewhere = leader.disk.records, None
        members = sorted({*self.info.isr, number})
        report = IsrReport(
            "t", 0, self.info.leader_epoch, self.info.partition_epoch, [(one, self.nodes[one].epoch) for one in members]
        )
        answer = decide_isr(self.image, self.info.leader, report, self.rules_of)
        if answer.settled is not None:
            self.publish([PartitionChanged("t", 0, answer.settled.info)])
        return ""

    def write(self, number: int, node: Node) -> str | None:
        """A record that all of the ISR have appended."""
        members = [self.nodes[one] for one in self.info.isr]
        if self.info.leader == NO_LEADER or len(members) < self.rules.min_insync:
            return None
        leader = self.nodes[self.info.leader]
        if not all(one.serves for one in members) or any(one.disk.records != leader.disk.records for one in members):
            return None
        for one in members:
            assert one.disk.records is not None
            one.disk.records += 1
        self.committed = leader.disk.records or 0
        return ""

    def elect(self, number: int, node: Node) -> str | None:
        if self.info.leader != NO_LEADER or self.chance.random() < 0.3:
            return None
        code, _, settled = elections.elect(self.image, "t", 0, Election.UNCLEAN, self.rules_of)
        if code != 0 or settled is None:
            return None
        chosen = settled.info.leader
        losses = self.image.losses_of("t", 0)
        live = [one for one in self.info.replicas if elections.may_lead(self.image, one)]
        assert losses.get(chosen, Loss.NONE) == min(losses.get(one, Loss.NONE) for one in live), self.log
        self.committed = min(self.committed, self.nodes[chosen].disk.records or 0)
        self.publish([PartitionChanged("t", 0, settled.info)], asked_for=True)
        return f"chose {chosen}"


@pytest.mark.fuzz
def test_no_election_gives_up_records_that_another_broker_has() -> None:
    leaders = 0
    for seed in range(HISTORIES):
        history = History(seed)
        history.run()
        leaders += history.info.leader != NO_LEADER
    assert leaders > HISTORIES / 4, "most histories must not end without a leader"
