"""Starts without one of several log directories: an empty log never takes the place of the missing one.

The broker has two directories. The log of topic `near` is in the first, the log of `far` in the second. A state makes
the second directory unusable. Then `near` serves, and `far` has no leader, however often the broker starts. After the
repair both topics have all their records.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.in_process import RunningBroker
from tests.support.clock import wait_for
from tests.support.start_states import Place, Templates, create_topic, leader_of, produce, records
from tests.support.zookeeper import available

pytestmark = pytest.mark.skipif(not available(), reason="needs Java and a ZooKeeper server (pyspark carries one)")

NEAR, FAR = "near", "far"
RECORDS: Final = (b"0", b"1", b"2")
_ONE_BROKER: Final = {"offsets.topic.replication.factor": "1"}


class TwoDisks:
    """A broker with two directories, and what an operator does to the second one."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.first, self.second = place.directory / "first", place.directory / "second"
        self.kept = place.directory / "kept"
        self.log_dirs = [self.first, self.second]
        with self.running(with_zookeeper=False) as broker:
            for topic in (NEAR, FAR):
                create_topic(broker.bootstrap, topic)
                produce(broker.bootstrap, *RECORDS, topic=topic)
        assert (self.first / f"{NEAR}-0").exists() and (self.second / f"{FAR}-0").exists()

    @contextmanager
    def running(self, *, with_zookeeper: bool) -> Iterator[RunningBroker]:
        settings = {**_ONE_BROKER, "log.dirs": ",".join(map(str, self.log_dirs))}
        if with_zookeeper:
            settings["zookeeper.connect"] = self.place.connect
        broker = RunningBroker(settings, self.first)
        try:
            yield broker
        finally:
            broker.stop()

    # States

    def not_mounted(self) -> None:
        self.second.rename(self.kept)
        self.second.mkdir()

    def gone(self) -> None:
        self.second.rename(self.kept)

    def a_file(self) -> None:
        self.second.rename(self.kept)
        self.second.write_text("no directory")

    def unreadable_log(self) -> None:
        self.second.rename(self.kept)
        shutil.copytree(self.kept, self.second)
        segment = self.second / f"{FAR}-0" / f"{0:020d}.log"
        segment.unlink()
        segment.mkdir()

    def not_in_log_dirs(self) -> None:
        self.log_dirs = [self.first]

    def another_in_log_dirs(self) -> None:
        self.log_dirs = [self.first, self.place.directory / "third"]

    def repair(self) -> None:
        self.log_dirs = [self.first, self.second]
        if self.kept.exists():
            if self.second.is_dir():
                shutil.rmtree(self.second)
            self.second.unlink(missing_ok=True)
            self.kept.rename(self.second)


State = Callable[[TwoDisks], None]
STATES: Final[tuple[State, ...]] = (
    TwoDisks.not_mounted,
    TwoDisks.gone,
    TwoDisks.a_file,
    TwoDisks.unreadable_log,
    TwoDisks.not_in_log_dirs,
    TwoDisks.another_in_log_dirs,
)
# How the broker starts: before, in the state, and after the repair.
STARTS: Final = {
    "alone": (False, False, False),
    "with ZooKeeper": (True, True, True),
    "moves to ZooKeeper in the state": (False, True, True),
}


def wait_for_no_leader(broker: RunningBroker, topic: str) -> None:
    wait_for(lambda: leader_of(broker.bootstrap, topic) == -1, f"{topic} without a leader")


def logs_of(topic: str, directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*/{topic}-0"))


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("zookeeper", STARTS.values(), ids=STARTS)
def test_no_empty_log_takes_the_place_of_a_missing_one(
    templates: Templates, state: State, zookeeper: tuple[bool, bool, bool]
) -> None:
    disks = TwoDisks(templates.place())
    before, in_state, after = zookeeper
    if before:
        with disks.running(with_zookeeper=True) as broker:
            assert records(broker.bootstrap, FAR) == RECORDS
    state(disks)
    seen = logs_of(FAR, disks.place.directory)
    for number in range(2):
        with disks.running(with_zookeeper=in_state) as broker:
            produce(broker.bootstrap, b"start %d" % number, topic=NEAR)
            wait_for_no_leader(broker, FAR)
            assert logs_of(FAR, disks.place.directory) == seen
            create_topic(broker.bootstrap, f"new-{number}")
            produce(broker.bootstrap, b"new", topic=f"new-{number}")
    disks.repair()
    # A directory that had a part of the new topics would be the next missing one.
    disks.log_dirs += [one for one in [disks.place.directory / "third"] if one.exists()]
    with disks.running(with_zookeeper=after) as broker:
        produce(broker.bootstrap, b"repaired", topic=FAR)
        assert records(broker.bootstrap, FAR) == (*RECORDS, b"repaired")
        assert records(broker.bootstrap, NEAR) == (*RECORDS, b"start 0", b"start 1")


@pytest.mark.parametrize("state", [TwoDisks.not_mounted, TwoDisks.not_in_log_dirs], ids=lambda state: state.__name__)
def test_an_unclean_election_goes_on_without_the_records(templates: Templates, state: State) -> None:
    disks = TwoDisks(templates.place())
    state(disks)
    with disks.running(with_zookeeper=False) as broker:
        wait_for_no_leader(broker, FAR)
        elect_uncleanly(broker, FAR)
        produce(broker.bootstrap, b"later", topic=FAR)
        assert records(broker.bootstrap, FAR) == (b"later",)
    with disks.running(with_zookeeper=False) as broker:
        assert records(broker.bootstrap, FAR) == (b"later",), "the directory is not missed any more"
        produce(broker.bootstrap, b"again", topic=FAR)


def elect_uncleanly(broker: RunningBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})

    def is_elected() -> bool:
        results = admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(topic, 0)]).result(20)
        return all(error is None for error in results.values())

    # Refused until the controller has the broker's report.
    wait_for(is_elected, f"the election of a leader of {topic}")


def test_a_last_leader_with_an_empty_disk_does_not_empty_the_other_replica(templates: Templates) -> None:
    """Broker 1 was the only one in the ISR, and comes back with a new disk before broker 2. It must not lead: broker 2
    would follow it and remove its records."""
    place = templates.place()
    directories = {number: place.directory / f"broker-{number}" for number in (1, 2)}

    def start(number: int) -> RunningBroker:
        settings = {**_ONE_BROKER, "broker.id": str(number), "zookeeper.connect": place.connect}
        return RunningBroker(settings, directories[number])

    first, second = start(1), start(2)
    admin = AdminClient({"bootstrap.servers": first.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(FAR, 1, replica_assignment=[[1, 2]])])[FAR].result(20)
    produce(first.bootstrap, *RECORDS, topic=FAR)
    second.stop()
    first.stop()
    shutil.rmtree(directories[1])
    first = start(1)
    wait_for_no_leader(first, FAR)
    second = start(2)
    wait_for_no_leader(second, FAR)
    elect_uncleanly(second, FAR)
    wait_for(lambda: leader_of(second.bootstrap, FAR) == 2, "broker 2 to lead")
    assert records(second.bootstrap, FAR) == RECORDS
    wait_for(lambda: in_sync(second, FAR) == {1, 2}, "the new disk to have the records")
    second.stop()
    wait_for(lambda: leader_of(first.bootstrap, FAR) == 1, "broker 1 to lead")
    assert records(first.bootstrap, FAR) == RECORDS
    first.stop()


def test_a_directory_returns_after_its_logs_were_fetched_again(templates: Templates) -> None:
    """Both directories have the log then. The one that followed the leader serves."""
    place = templates.place()
    first_dirs = [place.directory / "first", place.directory / "second"]

    def start(number: int, log_dirs: list[Path]) -> RunningBroker:
        settings = {
            **_ONE_BROKER,
            "broker.id": str(number),
            "zookeeper.connect": place.connect,
            "log.dirs": ",".join(map(str, log_dirs)),
        }
        return RunningBroker(settings, log_dirs[0])

    first, second = start(1, first_dirs), start(2, [place.directory / "other"])
    admin = AdminClient({"bootstrap.servers": second.bootstrap, "log_level": 0})
    for topic in (NEAR, FAR):
        admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1, 2]])])[topic].result(20)
        produce(first.bootstrap, *RECORDS, topic=topic)
    first.stop()
    (held,) = [path.name for path in first_dirs if (path / f"{FAR}-0").exists()]
    without = [path for path in first_dirs if path.name != held]
    first = start(1, without)
    wait_for(lambda: in_sync(second, FAR) == {1, 2}, "the records to be fetched again")
    produce(second.bootstrap, b"later", topic=FAR)
    first.stop()
    first = start(1, first_dirs)
    wait_for(lambda: in_sync(second, FAR) == {1, 2}, "the broker with both directories in sync")
    assert len(logs_of(FAR, place.directory)) == 2, "one of each broker"
    assert [stray.parent.name for stray in place.directory.glob(f"*/{FAR}-0.*-stray")] == [held]
    second.stop()
    assert records(first.bootstrap, FAR) == (*RECORDS, b"later")
    first.stop()


def in_sync(broker: RunningBroker, topic: str) -> set[int]:
    found = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(topic, timeout=20)
    return set(found.topics[topic].partitions[0].isrs)
