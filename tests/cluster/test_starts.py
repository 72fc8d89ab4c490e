"""Every way to start a broker on a log directory, right and wrong: no record is lost.

A row of the table is a state of the directories and of ZooKeeper. Its columns are the ways to start: standalone or with
ZooKeeper, with the broker id of the directory or with another. An outcome is `SERVES` (with all records), or words of
the error message with which the broker refuses. A refused start changes no file and no node. After every cell the test
starts the directory in the right way, an ordinary producer writes to the topic (and would create it), and a consumer
reads all records. docs/durability.md has the same table in words.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.broker.broker import CannotStart
from headrace.broker.standalone import make_standalone
from headrace.config import load_broker_config
from headrace.kernel.errors import StorageFault
from headrace.storage.dirs.restoration import restore
from headrace.storage.dirs.strays import strays_in
from tests.support.damaged_states import (
    STORE,
    another_chroot,
    apache_kafkas_directory,
    cut_in_half,
    damaged_meta,
    damaged_store,
    directories_of_a_lone_broker_and_a_member,
    directories_of_two_brokers,
    directories_of_two_clusters,
    emptied_zookeeper,
    emptied_zookeeper_after_a_move,
    flip_a_byte,
    half_moved,
    lone,
    lone_of_an_earlier_release,
    lone_of_an_earlier_release_without_store,
    lone_with_another_clusters_zookeeper,
    lone_without_its_first_directory,
    lone_without_meta,
    lone_without_meta_and_store,
    lone_without_store,
    member,
    member_with_another_clusters_zookeeper,
    member_without_meta,
    moved,
    moved_but_not_put_away,
    moved_by_an_earlier_release,
    moved_without_meta,
    state_in_both_stores,
    two_directories_of_one_broker,
    zookeeper_without_cluster_id,
)
from tests.support.start_states import (
    LONE_ID,
    MEMBER_ID,
    RECORDS,
    TOPIC,
    Place,
    Templates,
    create_topic,
    delete_topic,
    leader_of,
    produce,
    records,
)
from tests.support.unit import RunningUnit
from tests.support.zookeeper import available

pytestmark = pytest.mark.skipif(not available(), reason="needs Java and a ZooKeeper server (pyspark carries one)")

SERVES: Final = "serves"
OTHER: Final = 7


# The table

NOT_0: Final = f"belongs to broker {LONE_ID}, but broker.id={OTHER} is configured: set broker.id={LONE_ID}"
NOT_1: Final = f"belongs to broker {MEMBER_ID}, but broker.id={OTHER} is configured: set broker.id={MEMBER_ID}"
DAMAGED_META: Final = "meta.properties: .*the file is damaged.*Restore the file from a copy, or write it again"
NO_META: Final = "no meta.properties that names their broker and cluster. Restore the file from a copy"
NO_STORE: Final = (
    "store of broker 0 is in none of its log directories.*name all its directories in log.dirs, or restore"
)
DAMAGED_STORE: Final = "store of this broker is damaged: .*journal is .*Restore .*coordination from a copy"
IN_ZOOKEEPER: Final = "whose topics are in ZooKeeper at .* since 20.*: start with zookeeper.connect=127"
EMPTY_FOR_PART: Final = "ZooKeeper at .* holds no cluster, but log directory .*process.1 belongs to cluster"
EMPTY: Final = "ZooKeeper at .* holds no cluster, but log directory .*data belongs to cluster"
FOREIGN: Final = "belongs to cluster .*, ZooKeeper at .* to cluster .*: point zookeeper.connect at the right ensemble"
TWO_BROKERS: Final = "data belongs to broker 1 and .*second to broker 2: name only the directories of one broker"
TWO_CLUSTERS: Final = "data belongs to cluster .* and .*second to cluster .*: name only the directories of one broker"
HALF_MOVED: Final = "half moved: its state has been on its way in ZooKeeper at .*Start with zookeeper.connect=127"

ALONE, WITH_ZOOKEEPER = True, False


class Row(NamedTuple):
    """`alone` and `broker_id` are the right way to start. The outcomes are in the order of COLUMNS."""

    state: Callable[[Place], None]
    alone: bool
    broker_id: int
    outcomes: tuple[str, str, str, str]


def always(message: str) -> tuple[str, str, str, str]:
    return message, message, message, message


TABLE: Final = (
    Row(lone, ALONE, 0, (SERVES, NOT_0, SERVES, NOT_0)),
    Row(lone_of_an_earlier_release, ALONE, 0, (SERVES, NOT_0, SERVES, NOT_0)),
    Row(member, WITH_ZOOKEEPER, 1, (IN_ZOOKEEPER, NOT_1, SERVES, NOT_1)),
    Row(moved, WITH_ZOOKEEPER, 0, (IN_ZOOKEEPER, NOT_0, SERVES, NOT_0)),
    Row(moved_by_an_earlier_release, WITH_ZOOKEEPER, 0, ("whose topics are in ZooKeeper", NOT_0, SERVES, NOT_0)),
    Row(half_moved, WITH_ZOOKEEPER, 0, (HALF_MOVED, NOT_0, SERVES, NOT_0)),
    Row(moved_but_not_put_away, WITH_ZOOKEEPER, 0, (HALF_MOVED, NOT_0, SERVES, NOT_0)),
    Row(state_in_both_stores, ALONE, 0, (SERVES, NOT_0, "both hold the state of cluster", NOT_0)),
    Row(member_with_another_clusters_zookeeper, WITH_ZOOKEEPER, 1, (IN_ZOOKEEPER, NOT_1, FOREIGN, NOT_1)),
    Row(lone_with_another_clusters_zookeeper, ALONE, 0, (SERVES, NOT_0, FOREIGN, NOT_0)),
    Row(two_directories_of_one_broker, ALONE, 0, (SERVES, NOT_0, SERVES, NOT_0)),
    Row(directories_of_two_brokers, WITH_ZOOKEEPER, 1, always(TWO_BROKERS)),
    Row(directories_of_two_clusters, WITH_ZOOKEEPER, 1, always(TWO_CLUSTERS)),
    Row(directories_of_a_lone_broker_and_a_member, WITH_ZOOKEEPER, 0, always(TWO_CLUSTERS)),
    Row(lone_without_its_first_directory, ALONE, 0, (NO_STORE, NOT_0, NO_STORE, NOT_0)),
    Row(lone_without_meta, ALONE, 0, (SERVES, NOT_0, SERVES, NOT_0)),
    Row(member_without_meta, WITH_ZOOKEEPER, 1, always(NO_META)),
    Row(moved_without_meta, WITH_ZOOKEEPER, 0, always(NO_META)),
    Row(damaged_meta("lone", b""), ALONE, 0, always(DAMAGED_META)),
    Row(damaged_meta("lone", b"node.id=zero\n"), ALONE, 0, always(DAMAGED_META)),
    Row(damaged_meta("lone", bytes(range(256))), ALONE, 0, always(DAMAGED_META)),
    Row(damaged_meta("member", b"cluster.id\n"), WITH_ZOOKEEPER, 1, always(DAMAGED_META)),
    Row(damaged_meta("moved", b"version=1\n\0"), WITH_ZOOKEEPER, 0, always(DAMAGED_META)),
    Row(lone_without_store, ALONE, 0, (NO_STORE, NOT_0, NO_STORE, NOT_0)),
    Row(lone_of_an_earlier_release_without_store, ALONE, 0, ("are not known here: set zookeeper", NOT_0, EMPTY, NOT_0)),
    Row(lone_without_meta_and_store, ALONE, 0, always(NO_META)),
    Row(damaged_store(flip_a_byte), ALONE, 0, (DAMAGED_STORE, NOT_0, DAMAGED_STORE, NOT_0)),
    Row(damaged_store(cut_in_half), ALONE, 0, (DAMAGED_STORE, NOT_0, DAMAGED_STORE, NOT_0)),
    Row(damaged_store(Path.unlink), ALONE, 0, (DAMAGED_STORE, NOT_0, DAMAGED_STORE, NOT_0)),
    Row(emptied_zookeeper, WITH_ZOOKEEPER, 1, (IN_ZOOKEEPER, NOT_1, EMPTY, NOT_1)),
    Row(emptied_zookeeper_after_a_move, WITH_ZOOKEEPER, 0, (IN_ZOOKEEPER, NOT_0, EMPTY, NOT_0)),
    Row(zookeeper_without_cluster_id, WITH_ZOOKEEPER, 1, (IN_ZOOKEEPER, NOT_1, "but no /cluster/id", NOT_1)),
    Row(another_chroot, WITH_ZOOKEEPER, 1, (IN_ZOOKEEPER, NOT_1, EMPTY, NOT_1)),
    Row(apache_kafkas_directory, ALONE, 0, ("are not known here: set zookeeper", NOT_0, EMPTY, NOT_0)),
)
COLUMNS: Final = ((ALONE, True), (ALONE, False), (WITH_ZOOKEEPER, True), (WITH_ZOOKEEPER, False))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.state.__name__)
def test_no_start_loses_a_record(templates: Templates, row: Row) -> None:
    for (alone, own_id), outcome in zip(COLUMNS, row.outcomes, strict=True):
        place = templates.place()
        row.state(place)
        _try(place, outcome, alone=alone, broker_id=row.broker_id if own_id else OTHER)
        if outcome != SERVES:
            place.repair()
        # A start that served may have moved the state to another store.
        now_alone = alone if outcome == SERVES else row.alone
        written = (*RECORDS, b"by the first start") if outcome == SERVES else RECORDS
        # In turn with the id in the settings and with the id of the directory.
        broker = place.start(alone=now_alone, broker_id=row.broker_id if own_id else None)
        produce(broker.bootstrap, b"by the right start")
        assert records(broker.bootstrap) == (*written, b"by the right start")
        broker.stop()
        shutil.rmtree(place.directory)


def _try(place: Place, outcome: str, *, alone: bool, broker_id: int) -> None:
    if outcome == SERVES:
        broker = place.start(alone=alone, broker_id=broker_id)
        produce(broker.bootstrap, b"by the first start")
        assert records(broker.bootstrap) == (*RECORDS, b"by the first start")
        broker.stop()
        return
    before = place.contents()
    with pytest.raises(CannotStart, match=outcome):
        place.start(alone=alone, broker_id=broker_id)
    assert place.contents() == before, "a refused start changes nothing"


# Cases outside the table


@pytest.mark.parametrize(("alone", "broker_id"), [(True, 0), (True, 7), (False, 1), (False, 7), (False, None)])
def test_an_empty_directory_serves_with_any_id(templates: Templates, alone: bool, broker_id: int | None) -> None:
    place = templates.place()
    for number in range(3):
        broker = place.start(alone=alone, broker_id=broker_id)
        produce(broker.bootstrap, b"%d" % number)
        assert records(broker.bootstrap) == tuple(b"%d" % at for at in range(number + 1))
        broker.stop()


def test_a_start_with_the_id_of_a_live_broker_leaves_an_empty_directory_unchanged(templates: Templates) -> None:
    place, second = templates.place(), templates.place()
    place.take("member")
    holder = place.start(alone=False, broker_id=MEMBER_ID)
    second.chroot = place.chroot
    second.data.mkdir()
    before = second.contents()
    with pytest.raises(CannotStart, match=f"broker.id={MEMBER_ID} is already used by the broker at {holder.bootstrap}"):
        second.start(alone=False, broker_id=MEMBER_ID)
    assert second.contents()[0] == before[0], "it may still become the directory of another broker"
    second.start(alone=False, broker_id=OTHER).stop()
    assert records(holder.bootstrap) == RECORDS
    holder.stop()


def test_an_empty_directory_with_the_id_of_a_stopped_broker_keeps_the_other_directory_intact(
    templates: Templates,
) -> None:
    """A disk that is not mounted looks the same as a replaced one. So the topic waits for a person, or for its log."""
    place, second = templates.place(), templates.place()
    place.take("member")
    second.chroot = place.chroot
    broker = second.start(alone=False, broker_id=MEMBER_ID)
    assert leader_of(broker.bootstrap, TOPIC) == -1
    create_topic(broker.bootstrap, "new")
    produce(broker.bootstrap, b"elsewhere", topic="new")
    broker.stop()
    broker = place.start(alone=False, broker_id=MEMBER_ID)
    assert records(broker.bootstrap) == RECORDS
    assert leader_of(broker.bootstrap, "new") == -1
    produce(broker.bootstrap, b"again")
    assert records(broker.bootstrap) == (*RECORDS, b"again")
    broker.stop()


def _deleted_through_another_broker(place: Place) -> None:
    """While the broker that holds the log is down."""
    place.take("member")
    other = place.templates.place()
    other.chroot = place.chroot
    broker = other.start(alone=False, broker_id=OTHER)
    delete_topic(broker.bootstrap, TOPIC)
    broker.stop()


def _deleted_and_its_log_put_back(place: Place) -> None:
    """The store is newer than the log: an operator restored logs from a copy."""
    place.take("lone")
    broker = place.start(alone=True, broker_id=LONE_ID)
    delete_topic(broker.bootstrap, TOPIC)
    broker.stop()
    place.restore("lone", f"{TOPIC}-0")


@pytest.mark.parametrize(
    ("state", "alone", "broker_id", "outcomes"),
    [
        (_deleted_through_another_broker, WITH_ZOOKEEPER, MEMBER_ID, (IN_ZOOKEEPER, NOT_1, SERVES, NOT_1)),
        (_deleted_and_its_log_put_back, ALONE, LONE_ID, (SERVES, NOT_0, SERVES, NOT_0)),
        (_deleted_and_its_log_put_back, WITH_ZOOKEEPER, LONE_ID, (SERVES, NOT_0, SERVES, NOT_0)),
    ],
)
def test_the_log_of_a_topic_deleted_meanwhile_is_set_aside(
    templates: Templates, state: Callable[[Place], None], alone: bool, broker_id: int, outcomes: tuple[str, ...]
) -> None:
    place = templates.place()
    state(place)
    for (is_alone, own_id), outcome in zip(COLUMNS, outcomes, strict=True):
        if outcome != SERVES:
            _try(place, outcome, alone=is_alone, broker_id=broker_id if own_id else OTHER)
    broker = place.start(alone=alone, broker_id=broker_id)
    produce(broker.bootstrap, b"new")
    assert records(broker.bootstrap) == (b"new",)
    create_topic(broker.bootstrap, "rescued")
    broker.stop()
    [stray] = strays_in(place.data)
    assert (stray.topic, stray.count_records()) == (TOPIC, len(RECORDS))
    restore(stray, "rescued")
    broker = place.start(alone=alone, broker_id=broker_id)
    assert records(broker.bootstrap, "rescued") == RECORDS
    broker.stop()


PART_OF_UNIT: Final = "belongs to the first process of a unit, and broker 1 of the unit has a share .*--cores 2"
OF_ANOTHER_PROCESS: Final = "belongs to broker 1, a process of the unit of cluster .*: start the unit with that dir"


def test_the_parts_of_a_unit_are_refused_and_the_unit_serves_all_records(templates: Templates) -> None:
    """The topic is on process 1, the store in the directory of process 0. Then the unit moves to ZooKeeper."""
    place = templates.place()
    with RunningUnit(place.directory, 2, {"broker.id": str(LONE_ID)}) as unit:
        admin = AdminClient(unit.client)
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1]])])[TOPIC].result(60)
        produce(unit.bootstrap, *RECORDS)
        assert unit.stop() == 0
        first, further = [place.data], [place.data / "process.1"]
        outcomes = ((PART_OF_UNIT, NOT_0, PART_OF_UNIT, NOT_0), (OF_ANOTHER_PROCESS, NOT_1, EMPTY_FOR_PART, NOT_1))
        for log_dirs, own_id, row in ((first, LONE_ID, outcomes[0]), (further, MEMBER_ID, outcomes[1])):
            place.log_dirs = log_dirs
            for (alone, is_own), outcome in zip(COLUMNS, row, strict=True):
                _try(place, outcome, alone=alone, broker_id=own_id if is_own else OTHER)
        with pytest.raises(StorageFault, match="--cores 2"):
            asyncio.run(make_standalone(load_broker_config({"log.dirs": str(place.data)})))
        unit.start(2)
        assert records(unit.bootstrap) == RECORDS
        assert unit.stop() == 0
        unit.settings |= {"zookeeper.connect": place.connect, "offsets.topic.replication.factor": "1"}
        unit.start(2)
        produce(unit.bootstrap, b"in ZooKeeper")
        assert records(unit.bootstrap) == (*RECORDS, b"in ZooKeeper")
        assert unit.stop() == 0
        for log_dirs, own_id in ((first, LONE_ID), (further, MEMBER_ID)):
            place.log_dirs = log_dirs
            _try(place, IN_ZOOKEEPER, alone=True, broker_id=own_id)
        place.log_dirs = first
        refused = "a further process has logs in .*/process.1: start it with --cores 2"
        _try(place, refused, alone=False, broker_id=LONE_ID)


def test_nested_log_directories_are_refused(templates: Templates) -> None:
    """`node-1` in a log directory has the name of a partition: a topic deletion would delete the other broker's
    data.
    """
    around, inside = templates.place(), templates.place()
    around.copy_files("lone", around.data)
    inside.data = around.data / "node-1"
    inside.log_dirs = [inside.data]
    before = around.contents()
    with pytest.raises(
        CannotStart, match=f"{inside.data} is inside {around.data}, the log directory of another broker"
    ):
        inside.start(alone=True, broker_id=1)
    assert around.contents() == before and not inside.data.exists()
    inside.copy_files("lone", inside.data)
    before = around.contents()
    with pytest.raises(
        CannotStart, match=f"{inside.data}, the log directory of another broker, is inside {around.data}"
    ):
        around.start(alone=True, broker_id=0)
    assert around.contents() == before
    inside.data.rename(around.directory / "elsewhere")
    broker = around.start(alone=True, broker_id=0)
    assert records(broker.bootstrap) == RECORDS
    broker.stop()


def test_a_directory_with_a_partition_name_but_no_log_is_not_touched(templates: Templates) -> None:
    place = templates.place()
    place.take("lone")
    kept = place.data / "backup-2026" / "notes"
    kept.mkdir(parents=True)
    (kept / "important").write_text("do not delete")
    broker = place.start(alone=True, broker_id=LONE_ID)
    produce(broker.bootstrap, b"more")
    assert records(broker.bootstrap) == (*RECORDS, b"more")
    broker.stop()
    assert [path.name for path in (place.data / "backup-2026").rglob("*")] == ["notes", "important"]
    # A topic of that name does not write into it either.
    (place.data / "backup-2026").rename(place.data / "backup-0")
    broker = place.start(alone=True, broker_id=LONE_ID)
    create_topic(broker.bootstrap, "backup")
    delete_topic(broker.bootstrap, "backup")
    broker.stop()
    assert (place.data / "backup-0" / "notes" / "important").read_text() == "do not delete"


def test_logs_are_restored_after_a_crash_truncated_the_journal(templates: Templates) -> None:
    """After a kill the broker cannot distinguish the last entries of a journal from a torn write. Their topics
    are missing, so the broker sets their logs aside. With the complete journal the logs are restored."""
    place = templates.place()
    place.take("lone")
    (place.data / STORE / "closed").unlink()
    (place.data / ".kafka_cleanshutdown").unlink()
    os.truncate(place.data / STORE / "journal", (place.data / STORE / "journal").stat().st_size // 3)
    broker = place.start(alone=True, broker_id=LONE_ID)
    produce(broker.bootstrap, b"new")
    assert records(broker.bootstrap) == (b"new",)
    broker.stop()
    place.restore("lone", STORE)
    place.start(alone=True, broker_id=LONE_ID).stop()  # the new topic's log is set aside in turn
    strays = {stray.count_records(): stray for stray in strays_in(place.data) if stray.topic == TOPIC}
    assert strays.keys() == {len(RECORDS), 1}
    restore(strays[len(RECORDS)], None)
    broker = place.start(alone=True, broker_id=LONE_ID)
    assert records(broker.bootstrap) == RECORDS
    broker.stop()
