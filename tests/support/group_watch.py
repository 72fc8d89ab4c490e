"""Groups under load whose members join, leave and die: the output of their processes, and a check for violations.

A member is a process that prints its partitions and the records it reads (`tests/support/java/GroupMember.java`,
`tests/conformance/kafkajs/member.js`), on the monotonic clock that all processes of a machine share. `problems_of`
checks the whole output afterwards:

    lost        a record that was acknowledged and that no member read
    shared      a partition that two members had at one time: between `assigned` and `revoked` (or the death) of one
                member the other has an `assigned`
    stolen      a record that a member read after another member got the partition, or before it got it itself
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer


class Told(NamedTuple):
    at_ns: int
    what: str  # assigned, revoked, lost, read, dead
    member: str
    partition: int
    value: int = -1


class MemberProcess:
    """One member. A thread reads its output lines."""

    def __init__(self, name: str, command: Sequence[str], directory: Path, cwd: Path | None = None) -> None:
        self.name = name
        self.story: list[Told] = []
        self._errors = (directory / f"{name}.err").open("wb")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, cwd=cwd)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # a kill may have cut the last line
                self.story.extend(parsed(self.name, line.decode()))

    @property
    def reads(self) -> int:
        return sum(1 for told in self.story if told.what == "read")

    @property
    def has_partitions(self) -> bool:
        held: set[int] = set()
        for told in list(self.story):
            if told.what == "assigned":
                held.add(told.partition)
            elif told.what in ("revoked", "lost"):
                held.discard(told.partition)
        return bool(held)

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(10)
            self._errors.close()
        died = Told(time.monotonic_ns(), "dead", self.name, -1)
        self.story.append(died)


def parsed(member: str, line: str) -> list[Told]:
    what, at, rest = [*line.rstrip("\n").split(" ", 2), ""][:3]
    if what == "read":
        partition, _, value = rest.split(" ")
        return [Told(int(at), what, member, int(partition), int(value))]
    return [Told(int(at), what, member, int(index)) for index in rest.split(",") if index]


class Load(threading.Thread):
    """Writes numbers to each partition in turn until it is stopped, and keeps the acknowledged ones."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._topic, self._partitions, self._per_second = topic, partitions, per_second
        self._stop_asked = threading.Event()
        self.acknowledged: set[int] = set()
        self.start()

    def run(self) -> None:
        number = 0
        while not self._stop_asked.wait(0.02):
            for _ in range(max(1, self._per_second // 50)):
                self._producer.produce(
                    self._topic, str(number), partition=number % self._partitions, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.add(int(message.value()))  # type: ignore[attr-defined]

    def stop(self) -> None:
        self._stop_asked.set()
        self.join(60)


@dataclass
class Problems:
    lost: int = 0
    shared: list[str] = field(default_factory=list)
    stolen: list[str] = field(default_factory=list)
    # Another member read the record again after a member died or was late. This is allowed, and reported.
    again: int = 0
    # A late member read records that it had fetched before it learned that it was removed, and its client reports
    # `lost`. No broker can prevent that.
    stale: int = 0


def problems_of(
    stories: Iterable[Sequence[Told]], acknowledged: set[int], late: frozenset[str] = frozenset()
) -> Problems:
    """`late` are members that lose their partitions on purpose without noticing at once. They may keep a
    partition for a while after another member got it, and read its fetched records, but then they must report it
    as lost.
    """
    told = sorted((each for story in stories for each in story), key=lambda each: each.at_ns)
    found = Problems()
    times_read: Counter[int] = Counter()
    holders: dict[int, list[str]] = {}
    unaware = _reads_before_a_loss(told, late)
    for each in told:
        if each.what == "dead":
            for held in holders.values():
                if each.member in held:
                    held.remove(each.member)
            continue
        held = holders.setdefault(each.partition, [])
        if each.what == "assigned":
            if others := [name for name in held if name != each.member and name not in late]:
                found.shared.append(f"{each.partition}: {each.member} got it while {others} had it")
            if each.member in held:
                held.remove(each.member)
            held.append(each.member)
        elif each.what == "read":
            times_read[each.value] += 1
            if each in unaware and each.member in held[:-1]:
                found.stale += 1
            elif not held or held[-1] != each.member:
                found.stolen.append(f"{each.partition}: {each.member} read {each.value}, {held} have it")
        elif each.member in held:
            held.remove(each.member)
    found.lost = len(acknowledged - times_read.keys())
    found.again = sum(count - 1 for count in times_read.values())
    return found


def _reads_before_a_loss(told: Sequence[Told], late: frozenset[str]) -> set[Told]:
    """Reads by late members that next report the partition as lost, or that died first."""
    next_word: dict[tuple[str, int], str] = {}
    dead: set[str] = set()
    found = set()
    for each in reversed(told):
        if each.what == "dead":
            dead.add(each.member)
        elif each.what != "read":
            next_word[each.member, each.partition] = each.what
        elif each.member in late:
            word = next_word.get((each.member, each.partition), "lost" if each.member in dead else "")
            if word == "lost":
                found.add(each)
    return found
