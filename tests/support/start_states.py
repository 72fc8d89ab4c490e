"""Log directories and ZooKeeper nodes as brokers and operator mistakes leave them, for tests of broker starts.

A template is the result of one broker run, once per test module. A `Place` is a copy of its files and nodes that one
test may change.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from headrace.storage.dirs.identity import read_identity, write_identity
from headrace.testing.in_process import RunningBroker
from tests.support.zookeeper import ZooKeeperServer

TOPIC: Final = "precious"
RECORDS: Final = tuple(f"{number}".encode() for number in range(20))
GROUP: Final = "readers"
COMMITTED: Final = 7
LONE_ID: Final = 0
MEMBER_ID: Final = 1
# A cluster of one broker cannot hold the three replicas of Kafka's default.
_ONE_BROKER: Final = {"offsets.topic.replication.factor": "1"}


def produce(bootstrap: str, *values: bytes, topic: str = TOPIC, idempotent: bool = False) -> None:
    """As an ordinary producer: writing creates the topic."""
    failed: list[object] = []
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0, "enable.idempotence": idempotent}
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(20) == 0 and not failed, failed


def records(bootstrap: str, topic: str = TOPIC) -> tuple[bytes, ...]:
    """Reads all of partition 0."""
    # Without commits the consumer waits for no group coordinator.
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "enable.partition.eof": True, "fetch.wait.max.ms": 10})
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen: list[bytes] = []
    while True:
        message = consumer.poll(20)
        assert message is not None, "no answer within 20 s"
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            consumer.close()
            return tuple(seen)
        seen.append(message.value() or b"")


def commit_offset(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def committed_offset(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    [found] = consumer.committed([TopicPartition(TOPIC, 0)], timeout=20)
    consumer.close()
    return int(found.offset)


def create_topic(bootstrap: str, name: str, config: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1, config=dict(config or {}))])[name].result(20)


def leader_of(bootstrap: str, topic: str) -> int:
    """Of partition 0; -1 for none."""
    found = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(topic, timeout=20)
    return int(found.topics[topic].partitions[0].leader)


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics([name], operation_timeout=20)[name].result(20)


class Ensemble:
    """The nodes of one ZooKeeper server, by chroot."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self.connect = server.connect
        self.client = KazooClient(hosts=server.connect)
        self.client.start(timeout=30)

    def close(self) -> None:
        self.client.stop()
        self.client.close()

    def nodes(self, chroot: str) -> dict[str, tuple[bytes, int]]:
        """Data and version of every persistent node. The chroot itself is ''."""
        found: dict[str, tuple[bytes, int]] = {}
        waiting = [""] if self.client.exists(chroot) else []
        while waiting:
            path = waiting.pop()
            data, stat = self.client.get(chroot + path)
            if stat.ephemeralOwner == 0:
                found[path] = (data, stat.version)
                waiting += [f"{path}/{name}" for name in self.client.get_children(chroot + path)]
        return found

    def copy(self, source: str, target: str) -> None:
        self.remove(target)
        for path, (data, _) in sorted(self.nodes(source).items()):
            self.client.create(target + path, data, makepath=True)

    def remove(self, path: str) -> None:
        if self.client.exists(path):
            self.client.delete(path, recursive=True)


class Place:
    """One test's directories and chroot."""

    def __init__(self, templates: Templates, directory: Path, chroot: str) -> None:
        self.templates = templates
        self.ensemble = templates.ensemble
        self.directory = directory
        self.chroot = chroot
        self.data = directory / "data"
        self.log_dirs = [self.data]
        # Called before a correct start, if that needs something other than the template.
        self.repair: Callable[[], None] = lambda: None

    @property
    def connect(self) -> str:
        return self.ensemble.connect + self.chroot

    def take(self, template: str) -> None:
        """Copies a template's directory, and its nodes to this place's chroot."""
        self.copy_nodes(template)
        self.copy_files(template, self.data)

    def copy_files(self, template: str, target: Path) -> Path:
        shutil.copytree(self.templates.directories[template], target)
        self._name_own_chroot(target)
        return target

    def _name_own_chroot(self, directory: Path) -> None:
        identity = read_identity(directory)
        if identity is not None and identity.home is not None and identity.home.connect:
            write_identity(directory, replace(identity, home=replace(identity.home, connect=self.connect)))

    def copy_nodes(self, template: str) -> None:
        """A standalone broker has no nodes."""
        self.ensemble.copy(f"/template-{template}", self.chroot)

    def restore(self, template: str, *names: str) -> None:
        """Restores files or directories from the template."""
        source = self.templates.directories[template]
        for name in names:
            if (source / name).is_dir():
                shutil.rmtree(self.data / name, ignore_errors=True)
                shutil.copytree(source / name, self.data / name)
            else:
                shutil.copy(source / name, self.data)
                self._name_own_chroot(self.data)

    def start(self, *, alone: bool, broker_id: int | None) -> RunningBroker:
        """Raises CannotStart."""
        settings = {**_ONE_BROKER, "log.dirs": ",".join(map(str, self.log_dirs))}
        if broker_id is not None:
            settings["broker.id"] = str(broker_id)
        if not alone:
            settings["zookeeper.connect"] = self.connect
        return RunningBroker(settings, self.data)

    def contents(self) -> tuple[dict[str, bytes], dict[str, tuple[bytes, int]]]:
        """Every node, and every file except the lock files."""
        files = [path for path in self.directory.rglob("*") if path.is_file() and path.name != ".lock"]
        return {str(path.relative_to(self.directory)): path.read_bytes() for path in files}, self.ensemble.nodes(
            self.chroot
        )


class Templates:
    """`lone`: standalone broker 0 with the topic, its records and a group's offset. `member`: the same as broker
    1 of a cluster of one in ZooKeeper. `other`: like `member`, in another cluster. `moved`: like `lone`, after
    its state moved to ZooKeeper."""

    def __init__(self, server: ZooKeeperServer, directory: Path) -> None:
        self.ensemble = Ensemble(server)
        self.directory = directory
        self.directories = {name: directory / name for name in ("lone", "member", "other", "moved")}
        self._places = 0
        self._live("lone", {"broker.id": str(LONE_ID)})
        for name in ("member", "other"):
            self._live(name, {"broker.id": str(MEMBER_ID), "zookeeper.connect": f"{server.connect}/template-{name}"})
        shutil.copytree(self.directories["lone"], self.directories["moved"])
        RunningBroker({"zookeeper.connect": f"{server.connect}/template-moved"}, self.directories["moved"]).stop()

    def _live(self, name: str, settings: Mapping[str, str]) -> None:
        broker = RunningBroker({**_ONE_BROKER, **settings}, self.directories[name])
        create_topic(broker.bootstrap, TOPIC, {"max.message.bytes": "123456"})
        produce(broker.bootstrap, *RECORDS)
        commit_offset(broker.bootstrap, COMMITTED)
        broker.stop()

    def place(self) -> Place:
        self._places += 1
        directory = self.directory / f"place-{self._places}"
        directory.mkdir()
        return Place(self, directory, f"/place-{self._places}")

    def close(self) -> None:
        self.ensemble.close()
