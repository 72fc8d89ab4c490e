"""A cluster as in production: three ZooKeeper servers, a chroot, nodes with ACLs, racks; and brokers that may not
join it.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from headrace.client.connection import Connection
from headrace.coordination import paths
from headrace.testing.process import BrokerProcess
from tests.cluster.faults import conclude, controller_of
from tests.cluster.load import Load, client_load
from tests.reference.kafka import java_command
from tests.support import zookeeper
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long
from tests.support.zookeeper import ZooKeeperEnsemble

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]

SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.set.acl": "true",
    "zookeeper.digest.user": "headrace",
    "zookeeper.digest.password": "secret",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "1",
}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, ensemble: ZooKeeperEnsemble) -> Iterator[RunningCluster]:
    with RunningCluster(
        tmp_path_factory.mktemp("cluster"),
        settings=SETTINGS,
        connect=f"{ensemble.connect}/orders/eu",
        own=lambda number: {"broker.rack": f"rack-{number}"},
    ) as running:
        yield running


def test_nodes_are_under_the_chroot_and_writable_by_the_cluster_only(
    cluster: RunningCluster, ensemble: ZooKeeperEnsemble
) -> None:
    somebody = KazooClient(hosts=ensemble.connect)
    somebody.start(timeout=15)
    try:
        assert sorted(somebody.get_children("/")) == ["orders", "zookeeper"]
        assert sorted(somebody.get_children("/orders/eu/brokers/ids")) == ["1", "2", "3"]
        data, _ = somebody.get("/orders/eu/controller")
        assert b"brokerid" in data
        with pytest.raises(NoAuthError):
            somebody.set("/orders/eu/controller_epoch", b"99")
        with pytest.raises(NoAuthError):
            somebody.delete("/orders/eu/brokers/ids/1")
    finally:
        somebody.stop()
        somebody.close()


def test_clients_notice_no_death_of_the_zookeeper_leader(
    cluster: RunningCluster, ensemble: ZooKeeperEnsemble, topic: str
) -> None:
    with client_load(cluster, topic) as load:
        leader = ensemble.leader()
        leader.kill()
        load.wait_for_acks(200)
        cluster.create_topic(f"{topic}-meanwhile")
        leader.start()
        load.wait_for_acks(50)
        conclude(cluster, load, topic=topic)


@pytest.mark.skipif(not is_long(), reason="long: make chaos")
def test_rolling_restart_of_the_zookeeper_ensemble(
    cluster: RunningCluster, ensemble: ZooKeeperEnsemble, topic: str
) -> None:
    """As in an upgrade of ZooKeeper. A broker dies in the middle of it."""
    with client_load(cluster, topic) as load:
        for turn, server in enumerate(ensemble.servers):
            server.stop()
            load.wait_for_acks(200)
            if turn == 1:
                cluster.brokers[cluster.leader(topic)].kill()
                load.wait_for_acks(100)
                cluster.heal()
            server.start()
        cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


@pytest.mark.skipif(not is_long(), reason="long: make chaos")
def test_without_a_zookeeper_majority_no_record_is_acknowledged_and_none_is_lost(
    cluster: RunningCluster, ensemble: ZooKeeperEnsemble, topic: str
) -> None:
    with client_load(cluster, topic) as load:
        lost = ensemble.servers[:2]
        for server in lost:
            server.kill()

        def stands_still() -> bool:
            before = load.acked
            time.sleep(1)
            return load.acked == before

        wait_for(stands_still, "leases to end")
        for server in lost:
            server.start()
        load.wait_for_acks(200)
        conclude(cluster, load, topic=topic)


def test_leadership_returns_to_the_preferred_leader_automatically(cluster: RunningCluster, topic: str) -> None:
    cluster.brokers[2].stop()
    assert all(info.leader != 2 for info in cluster.metadata(topic).values())
    cluster.brokers[2].start()
    wait_for(
        lambda: all(info.leader == info.replicas[0] for info in cluster.metadata(topic).values()),
        "every partition to be led by its first replica",
    )


def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        load.wait_for_acks(300)
        conclude(cluster, load, topic=topic)
    leader = cluster.leader(topic)
    near = cluster.others(leader)[0]
    logged: list[str] = []
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"{topic}-near",
            "client.rack": f"rack-{near}",
            "auto.offset.reset": "earliest",
            "debug": "fetch",
            "logger": _Lines(logged),
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen: list[int] = []
    wait_for(
        lambda: seen.extend(m.offset() for m in consumer.consume(500, 0.5) if m.error() is None) or len(seen) > 20,
        "records",
    )
    consumer.close()
    assert any(f"migrating from broker {leader} to {near}" in line for line in logged), logged[-20:]


class _Lines:
    """A logger in the form that librdkafka's binding expects."""

    def __init__(self, into: list[str]) -> None:
        self._into = into

    def log(self, _level: int, line: str, *arguments: object) -> None:
        self._into.append(line % arguments if arguments else line)


def test_a_replication_factor_above_the_number_of_brokers_is_rejected_with_both_numbers(
    cluster: RunningCluster,
) -> None:
    with pytest.raises(KafkaException, match=r"factor of 4 .* only 3 broker") as refused:
        cluster.create_topic("wide", 1, replicas=4)
    assert refused.value.args[0].name() == "INVALID_REPLICATION_FACTOR"


def test_a_broker_id_in_use_is_refused_and_its_holder_named(cluster: RunningCluster, tmp_path: Path) -> None:
    code, said = start(cluster, tmp_path / "another", "broker.id=2")
    assert code == 1
    assert f"broker.id=2 is already used by the broker at {cluster.brokers[2].bootstrap}" in said
    assert "Traceback" not in said
    assert cluster.brokers[2].is_running


def test_a_directory_of_another_cluster_is_refused(cluster: RunningCluster, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=7\n")
    code, said = start(cluster, tmp_path / "data", "broker.id=7")
    assert code == 1
    assert f"log directory {tmp_path / 'data'} belongs to cluster AAAAAAAAAAAAAAAAAAAAAA, ZooKeeper at " in said
    assert "Traceback" not in said


def test_feature_levels_change_on_all_brokers_at_once(cluster: RunningCluster) -> None:
    before = finalized(cluster)
    assert len(set(before.values())) == 1 and levels(before)["group.version"] == 1
    say = features(cluster, "downgrade", "--feature", "group.version=0", "--dry-run")
    assert "group.version can be downgraded to 0" in say
    assert finalized(cluster) == before
    if is_long():  # the term of another controller: finalized levels are stored
        cluster.brokers[controller_of(cluster)].kill()
        cluster.heal()
        wait_for(lambda: levels(finalized(cluster)) == levels(before), "the same levels under another controller")
    assert "group.version was downgraded to 0" in features(cluster, "downgrade", "--feature", "group.version=0")
    wait_for(lambda: "group.version" not in levels(finalized(cluster)), "every broker to show the lower level")
    assert all(epoch > before[1][1] for _, epoch in finalized(cluster).values())
    assert "supports 0 to 1" in features(cluster, "upgrade", "--feature", "group.version=9", code=1)
    assert "upgraded to 1" in features(cluster, "upgrade", "--feature", "group.version=1")
    wait_for(lambda: levels(finalized(cluster)) == levels(before), "every broker to show the previous level")


def test_a_broker_that_does_not_support_the_finalized_levels_cannot_join(
    cluster: RunningCluster, ensemble: ZooKeeperEnsemble, tmp_path: Path
) -> None:
    """As if a newer release had finalized it: an older broker sees only the number."""
    store = KazooClient(hosts=f"{ensemble.connect}/orders/eu", auth_data=[("digest", "headrace:secret")])
    store.start(timeout=15)
    path = paths.feature("metadata.version")
    stored, _ = store.get(path)
    try:
        store.set(path, b'{"level":31}')
        code, said = start(cluster, tmp_path / "old", "broker.id=8")
    finally:
        store.set(path, stored)
        store.stop()
        store.close()
    assert code == 1
    assert "the cluster has finalized metadata.version at level 31, broker 8 supports 7 to 30" in said
    assert "Traceback" not in said


@pytest.mark.needs("kafka")
@pytest.mark.skipif(not is_long(), reason="long: make chaos")
def test_kafka_features_changes_the_levels(cluster: RunningCluster) -> None:
    def tool(*words: str) -> str:
        command = java_command("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", cluster.bootstrap, *words)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    assert "group.version was downgraded to 0." in tool("downgrade", "--feature", "group.version=0")
    wait_for(lambda: "group.version" not in levels(finalized(cluster)), "every broker to show the lower level")
    described = tool("describe")
    assert re.search(
        r"group.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 0", described
    )
    assert "can be upgraded to 1" in tool("upgrade", "--feature", "group.version=1", "--dry-run")
    assert "was upgraded to 1" in tool("upgrade", "--feature", "group.version=1")


def features(cluster: RunningCluster, *words: str, code: int = 0) -> str:
    """Runs kafka-features.sh."""
    command = [sys.executable, "-m", "headrace.cli.kafka_tools.features", "--bootstrap-server", cluster.bootstrap]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


Told = dict[int, tuple[frozenset[tuple[str, int]], int]]


def finalized(cluster: RunningCluster) -> Told:
    """Feature levels and their epoch in each broker's ApiVersions answer."""

    async def ask(broker: BrokerProcess) -> tuple[frozenset[tuple[str, int]], int]:
        host, _, port = broker.bootstrap.rpartition(":")
        connection = await Connection.open(host, int(port), client_id="features", timeout=10)
        try:
            body = {"client_software_name": "test", "client_software_version": "1"}
            answer = await connection.request(18, body, version=4, timeout=10)
        finally:
            await connection.close()
        told = frozenset((str(one.name), int(one.max_version_level)) for one in answer.finalized_features)
        return told, int(answer.finalized_features_epoch)

    return {number: asyncio.run(ask(broker)) for number, broker in cluster.brokers.items()}


def levels(told: Told) -> dict[str, int]:
    """Feature levels that all brokers report, or nothing while they differ."""
    different = {one for one, _ in told.values()}
    return dict(different.pop()) if len(different) == 1 else {}


def start(cluster: RunningCluster, directory: Path, *settings: str) -> tuple[int, str]:
    """Starts a broker that must fail: its exit code and its message."""
    all_settings = [f"{key}={value}" for key, value in cluster.brokers[1].settings.items() if key != "broker.id"]
    command = [sys.executable, "-m", "headrace.cli", "start", "--data", str(directory), "--listen", "127.0.0.1:0"]
    command += [f"--set={setting}" for setting in (*all_settings, *settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


@pytest.mark.needs("kafka")
@pytest.mark.skipif(not is_long(), reason="long: make chaos")
def test_kafka_replica_verification_finds_equal_replicas(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        load.wait_for_acks(300)
        conclude(cluster, load, topic=topic)
    options = ["--broker-list", cluster.bootstrap, "--topics-include", topic, "--report-interval-ms", "500"]
    tool = subprocess.Popen(
        java_command("org.apache.kafka.tools.ReplicaVerificationTool", *options), stdout=subprocess.PIPE, text=True
    )
    try:  # it runs for ever
        assert tool.stdout is not None
        lines = []
        for line in tool.stdout:
            lines.append(line)
            if "max lag is" in line:
                break
        assert "max lag is 0 for partition" in "".join(lines)
    finally:
        tool.kill()
        tool.wait()
        tool.stdout.close()  # type: ignore[union-attr]
