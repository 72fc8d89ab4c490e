"""`headrace log standalone`: a broker becomes standalone again, with its topics from ZooKeeper or from its logs.

Afterwards every record and the groups' offsets are available, and no file was deleted.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.broker.broker import CannotStart
from headrace.broker.standalone import Standalone, make_standalone
from headrace.cli.support.reference import commands, examples
from headrace.config import load_broker_config
from headrace.coordination import paths
from headrace.kernel.errors import StorageFault
from headrace.storage.recovery import inspection
from headrace.testing.in_process import RunningBroker
from tests.support.damaged_states import (
    apache_kafkas_directory,
    cut_in_half,
    damaged_meta,
    damaged_store,
    emptied_zookeeper,
    emptied_zookeeper_after_a_move,
    flip_a_byte,
    half_moved,
    lone,
    lone_of_an_earlier_release_without_store,
    lone_without_meta,
    lone_without_meta_and_store,
    lone_without_store,
    member,
    member_without_meta,
    moved,
    moved_but_not_put_away,
    moved_by_an_earlier_release,
    two_directories_of_one_broker,
    zookeeper_without_cluster_id,
)
from tests.support.start_states import (
    COMMITTED,
    LONE_ID,
    MEMBER_ID,
    RECORDS,
    TOPIC,
    Place,
    Templates,
    committed_offset,
    create_topic,
    produce,
    records,
)
from tests.support.zookeeper import available

pytestmark = pytest.mark.skipif(not available(), reason="needs Java and a ZooKeeper server (pyspark carries one)")


def stand_alone(place: Place, *, from_zookeeper: bool = False, broker_id: int | None = None) -> Standalone:
    settings = {"log.dirs": ",".join(map(str, place.log_dirs))}
    if broker_id is not None:
        settings["broker.id"] = str(broker_id)
    if from_zookeeper:
        settings["zookeeper.connect"] = place.connect
    return asyncio.run(make_standalone(load_broker_config(settings)))


def settings_of(broker: RunningBroker, topic: str = TOPIC) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    found: dict[str, Any] = admin.describe_configs([resource])[resource].result(20)
    return {name: entry.value for name, entry in found.items()}


def serves_all(place: Place, broker_id: int | None = None) -> dict[str, str]:
    """Starts it twice, with an ordinary producer each time. Returns the settings of the topic."""
    found: dict[str, str] = {}
    for number in range(2):
        broker = place.start(alone=True, broker_id=broker_id)
        produce(broker.bootstrap, f"again {number}".encode())
        assert records(broker.bootstrap) == (*RECORDS, *(f"again {at}".encode() for at in range(number + 1)))
        assert committed_offset(broker.bootstrap) == COMMITTED
        found = settings_of(broker)
        broker.stop()
    epochs = [batch.partition_leader_epoch for batch in batches(place.data)]
    assert epochs == sorted(epochs), "leader epochs only grow"
    return found


def batches(directory: Path) -> list[Any]:
    segments = inspection.segments_in(directory / f"{TOPIC}-0")
    return [batch for segment in segments for _, batch in inspection.batches_in(segment.path)]


# From ZooKeeper


@pytest.mark.parametrize(
    ("state", "broker_id"),
    [(moved, LONE_ID), (moved_by_an_earlier_release, LONE_ID), (moved_but_not_put_away, LONE_ID), (member, MEMBER_ID)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_state_is_copied_from_zookeeper(
    templates: Templates, state: Callable[[Place], None], broker_id: int
) -> None:
    place = templates.place()
    state(place)
    broker = place.start(alone=False, broker_id=None)
    create_topic(broker.bootstrap, "made-in-the-cluster", {"retention.ms": "-1"})
    broker.stop()
    done = stand_alone(place, from_zookeeper=True)
    assert (done.broker_id, done.findings.made, done.findings.left) == (broker_id, (), ())
    assert done.topics == 3
    assert serves_all(place)["max.message.bytes"] == "123456"
    broker = place.start(alone=True, broker_id=broker_id)
    assert settings_of(broker, "made-in-the-cluster")["retention.ms"] == "-1"
    broker.stop()
    # The nodes in ZooKeeper are now out of date, and no start uses them.
    with pytest.raises(
        CannotStart, match=r"was moved away \(.*data on .*: start that broker without zookeeper.connect"
    ):
        place.start(alone=False, broker_id=broker_id)
    place.chroot += "-anew"
    broker = place.start(alone=False, broker_id=broker_id)
    assert records(broker.bootstrap)[: len(RECORDS)] == RECORDS
    broker.stop()


def test_an_interrupted_command_can_be_run_again(templates: Templates) -> None:
    """Stopped after the write to ZooKeeper and before the new store was renamed."""
    place = templates.place()
    moved(place)
    before = shutil.copytree(place.data, place.directory / "before")
    stand_alone(place, from_zookeeper=True)
    shutil.rmtree(place.data)
    before.rename(place.data)
    with pytest.raises(CannotStart, match="whose topics are in ZooKeeper"):
        place.start(alone=True, broker_id=None)
    stand_alone(place, from_zookeeper=True)
    serves_all(place)


def test_a_cluster_of_several_brokers_is_refused(templates: Templates) -> None:
    place, other = templates.place(), templates.place()
    member(place)
    other.chroot = place.chroot
    broker = other.start(alone=False, broker_id=2)
    nodes = place.ensemble.nodes(place.chroot)
    with pytest.raises(StorageFault, match=r"broker 2 of ZooKeeper at .* is running: stop all brokers"):
        stand_alone(place, from_zookeeper=True)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    assert admin.list_topics(timeout=20).topics[TOPIC].partitions[0].replicas == [MEMBER_ID]
    create_topic(broker.bootstrap, "elsewhere")  # the only live broker holds it
    broker.stop()
    with pytest.raises(
        StorageFault, match="elsewhere-0 has replicas on brokers 2, and only those of broker 1 come along"
    ):
        stand_alone(place, from_zookeeper=True)
    assert place.ensemble.nodes(place.chroot).keys() >= nodes.keys()
    place.start(alone=False, broker_id=MEMBER_ID).stop()


def test_the_ensemble_of_another_cluster_is_refused(templates: Templates) -> None:
    place = templates.place()
    moved(place)
    place.copy_nodes("other")
    before = place.contents()
    with pytest.raises(StorageFault, match=r"belongs to broker 0 of cluster .*, ZooKeeper at .* to cluster"):
        stand_alone(place, from_zookeeper=True)
    assert place.contents() == before


# From the logs

KEPT, MADE = "123456", "1048588"


@pytest.mark.parametrize(
    ("state", "broker_id", "message_bytes"),
    [
        (lone_without_store, LONE_ID, MADE),
        (lone_of_an_earlier_release_without_store, LONE_ID, MADE),
        (lone_without_meta_and_store, LONE_ID, MADE),
        (lone_without_meta, LONE_ID, KEPT),
        (lone, LONE_ID, KEPT),
        (two_directories_of_one_broker, LONE_ID, KEPT),
        (damaged_meta("lone", b""), LONE_ID, KEPT),
        (damaged_store(flip_a_byte), LONE_ID, None),
        (damaged_store(cut_in_half), LONE_ID, None),
        (damaged_store(Path.unlink), LONE_ID, MADE),
        (half_moved, LONE_ID, KEPT),
        (emptied_zookeeper, MEMBER_ID, MADE),
        (emptied_zookeeper_after_a_move, LONE_ID, KEPT),
        (zookeeper_without_cluster_id, MEMBER_ID, MADE),
        (member, MEMBER_ID, MADE),
        (member_without_meta, 5, MADE),
        (apache_kafkas_directory, LONE_ID, MADE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_topics_are_created_from_the_logs_if_no_store_has_them(
    templates: Templates, state: Callable[[Place], None], broker_id: int, message_bytes: str | None
) -> None:
    place = templates.place()
    state(place)
    files = {path.relative_to(place.directory) for path in place.directory.rglob("*.log")}
    done = stand_alone(place, broker_id=broker_id)
    assert done.broker_id == broker_id and done.findings.left == () and done.topics == 2
    settings = serves_all(place)
    made = TOPIC in done.findings.made
    assert settings["max.message.bytes"] == (MADE if made else KEPT)
    if message_bytes is not None:
        assert made == (message_bytes == MADE)
    if made:
        assert (settings["retention.ms"], settings["cleanup.policy"]) == ("-1", "delete"), (
            "a guess would delete records"
        )
    assert {path.relative_to(place.directory) for path in place.directory.rglob("*.log")} >= files


def test_a_directory_without_the_state_of_its_cluster_gets_a_new_cluster_id(
    templates: Templates,
) -> None:
    """So that the logs, which diverge from now on, are never mixed."""
    place = templates.place()
    member(place)
    done = stand_alone(place)
    known = json.loads(place.ensemble.nodes(place.chroot)[paths.CLUSTER_ID][0])["id"]
    assert done.cluster_id != known
    serves_all(place)
    with pytest.raises(CannotStart, match=f"belongs to cluster {done.cluster_id}, ZooKeeper at .* to cluster {known}"):
        place.start(alone=False, broker_id=MEMBER_ID)


def test_assigned_producer_ids_are_not_assigned_again(templates: Templates) -> None:
    """The broker would take a second producer with the same id for the first, and its records for duplicates."""
    place = templates.place()
    lone_without_store(place)
    stand_alone(place)
    broker = place.start(alone=True, broker_id=None)
    produce(broker.bootstrap, b"idempotent", idempotent=True)
    assert records(broker.bootstrap) == (*RECORDS, b"idempotent")
    broker.stop()
    [last] = [batch.producer_id for batch in batches(place.data)][-1:]
    assert last > 10**15


def test_logs_of_two_topics_with_one_name_are_not_restored(templates: Templates) -> None:
    place = templates.place()
    lone_without_store(place)
    other = templates.directories["member"] / f"{TOPIC}-0"
    shutil.copytree(other, place.data / f"{TOPIC}-1")
    done = stand_alone(place)
    assert TOPIC not in done.findings.made
    assert done.findings.left == tuple(
        f"{TOPIC}-{index}: the logs of {TOPIC} are of 2 different topics" for index in range(2)
    )


def test_the_command_asks_reports_and_refuses_a_directory_in_use(templates: Templates) -> None:
    place = templates.place()
    lone_without_store(place)

    def command(*words: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "headrace.cli", "log", "standalone", str(place.data), *words]
        return subprocess.run(program, input=answer, capture_output=True, text=True, check=False)

    refused = command(answer="n\n")
    assert refused.returncode == 1 and "serve alone from now on, with topics made from its logs?" in refused.stderr
    assert not (place.data / ".coordination").exists()
    done = command("--yes", "-o", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["broker"], told["topics"], told["basis"]) == (LONE_ID, 2, "the logs")
    assert sorted(told["made_from_logs"]) == ["__consumer_offsets", TOPIC]
    broker = place.start(alone=True, broker_id=None)
    busy = command("--yes")
    assert busy.returncode == 1 and f"log directory {place.data} is in use by headrace broker" in busy.stderr
    assert records(broker.bootstrap) == RECORDS
    broker.stop()


def test_the_example_in_the_help_restores_the_topics(templates: Templates) -> None:
    place = templates.place()
    moved(place)
    [example] = [line for line in examples(dict(commands())["log standalone"]) if "--zookeeper" in line]
    words = example.replace("localhost:2181/orders", place.connect).split()[1:]
    program = [sys.executable, "-m", "headrace.cli", *words]
    done = subprocess.run(program, cwd=place.directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (
        "is a standalone broker with 2 topics" in done.stdout
        and f"they come from ZooKeeper at {place.connect}" in done.stdout
    )
    serves_all(place)
