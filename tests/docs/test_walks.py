"""The walks of ARCHITECTURE.md are what a debugger shows.

A profiler notes every call of the brokers while a real client does what a walk describes. The functions that the walk
names must be called in the order of the walk.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from headrace.client.blocking.connection import BlockingConnection
from headrace.client.security import ClientSecurity
from headrace.testing import InProcessCluster, cluster
from tests.support.clock import wait_for
from tests.support.names import unique

ROOT = Path(__file__).resolve().parents[2]
_SOURCE = str(ROOT / "src" / "headrace")
_WALK = re.compile(r"^\*\*(?P<title>[^*]+?)\.\*\*(?P<text>.*?)(?=^\*\*|^## )", re.MULTILINE | re.DOTALL)
# `Class.method` or `folder/module.function`; a name that begins with `_` after an arrow belongs to the class before it.
_NAME = re.compile(r"(?<![\w.])(?:\w+/)*([A-Za-z_]+\.(?!py\b)_?[a-z][a-z_]*|(?<=→ )_[a-z][a-z_]+)(?![\w/]|\.\w)")
_CODE = re.compile(r"```\n(?P<block>.*?)```|`(?P<inline>[^`]+)`", re.DOTALL)


def walks() -> dict[str, list[str]]:
    """The functions that each walk names, in its order."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text[text.index("## Six walks") : text.index("## Where is")] + "## "
    found = {}
    for walk in _WALK.finditer(section):
        code = (part["block"] or part["inline"] for part in _CODE.finditer(walk["text"]))
        found[walk["title"].replace("`", "")] = [name for part in code for name in _NAME.findall(part)]
    return found


class Calls:
    """The calls of Headrace's functions in threads that start after `noted`."""

    def __init__(self) -> None:
        self.on = False
        self._made: list[tuple[str, str]] = []

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call" and frame.f_code.co_filename.startswith(_SOURCE):
            self._made.append((Path(frame.f_code.co_filename).stem, frame.f_code.co_qualname))

    def during(self, action: Callable[[], None]) -> None:
        self._made = []
        self.on = True
        try:
            action()
        finally:
            self.on = False

    def first_missing(self, names: list[str]) -> str | None:
        """The first name that was not called after the names before it."""
        made = iter(list(self._made))
        for name in names:
            if not any(_is(name, *call) for call in made):
                return name
        return None


def _is(name: str, module: str, function: str) -> bool:
    owner, _, last = name.rpartition(".")
    if not owner:
        return function.endswith(f".{last}")
    return function == name or (module == owner and function == last)


@contextmanager
def noted(calls: Calls) -> Iterator[None]:
    threading.setprofile(calls.profile)
    try:
        yield
    finally:
        threading.setprofile(None)


@pytest.fixture(scope="module")
def calls() -> Calls:
    return Calls()


@pytest.fixture(scope="module")
def brokers(calls: Calls) -> Iterator[InProcessCluster]:
    with noted(calls), cluster(brokers=3) as running:
        yield running


@pytest.fixture
def topic(brokers: InProcessCluster) -> str:
    name = unique("walk")
    create(brokers, name)
    return name


def create(brokers: InProcessCluster, name: str) -> None:
    """Creates a topic through a broker that is not the controller."""
    controller = AdminClient({"bootstrap.servers": brokers.bootstrap}).list_topics().controller_id
    other = next(broker for broker_id, broker in brokers.brokers.items() if broker_id != controller)
    connection = BlockingConnection("127.0.0.1", other.port, client_id="walk", timeout_s=60, security=ClientSecurity())
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 3, "assignments": [], "configs": []}
    try:
        answer = connection.call("create_topics", {"topics": [wanted], "timeout": 30_000, "validate_only": False})
    finally:
        connection.close()
    assert [topic.error_code for topic in answer.topics] == [0]


def produce(brokers: InProcessCluster, topic: str, acks: str) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": acks})
    producer.produce(topic, b"tea")
    assert producer.flush(30) == 0


def consume(brokers: InProcessCluster, topic: str, records: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": brokers.bootstrap,
            "group.id": unique("walk"),
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 500,
        }
    )
    consumer.subscribe([topic])
    try:
        for _ in range(records):
            wait_for(lambda: consumer.poll(1.0) is not None, "a record")
    finally:
        consumer.close()


def test_every_walk_names_functions() -> None:
    assert list(walks()) == [
        "Produce with acks=1",
        "The answer to acks=all",
        "A Fetch that waits",
        "JoinGroup",
        "CreateTopics in a cluster",
        "kill -9 of a leader",
    ]
    assert all(len(names) >= 2 for names in walks().values())


def test_produce_with_acks_1(brokers: InProcessCluster, calls: Calls, topic: str) -> None:
    calls.during(lambda: produce(brokers, topic, "1"))
    assert calls.first_missing(walks()["Produce with acks=1"]) is None


def test_answer_to_acks_all(brokers: InProcessCluster, calls: Calls, topic: str) -> None:
    calls.during(lambda: produce(brokers, topic, "all"))
    assert calls.first_missing(walks()["The answer to acks=all"]) is None


def test_join_group_and_waiting_fetch(brokers: InProcessCluster, calls: Calls, topic: str) -> None:
    def write_while_reading() -> None:
        reader = threading.Thread(target=consume, args=(brokers, topic, 1))
        reader.start()
        wait_for(lambda: calls.first_missing(walks()["A Fetch that waits"][:1]) is None, "a fetch")
        produce(brokers, topic, "all")
        reader.join()

    calls.during(write_while_reading)
    assert calls.first_missing(walks()["JoinGroup"]) is None
    assert calls.first_missing(walks()["A Fetch that waits"]) is None


def test_create_topics_in_a_cluster(brokers: InProcessCluster, calls: Calls) -> None:
    calls.during(lambda: create(brokers, unique("walk")))
    assert calls.first_missing(walks()["CreateTopics in a cluster"]) is None


def test_kill_of_a_leader(brokers: InProcessCluster, calls: Calls, topic: str) -> None:
    def lose_the_leader() -> None:
        leader = brokers.leader(topic)
        brokers.kill(leader)
        wait_for(lambda: brokers.leader(topic) not in (leader, -1), "a new leader")

    calls.during(lose_the_leader)
    assert calls.first_missing(walks()["kill -9 of a leader"]) is None
