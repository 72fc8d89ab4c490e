"""Typed topics on a real broker: each kind of type, with and without a schema registry."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from confluent_kafka import Producer

import headrace
from headrace.api.administration import TopicFacts
from headrace.api.cluster import Cluster
from headrace.api.errors import DeliveryFailed, NoSchema, NotPossible, ReadFailed, SchemaRefused, WrongValue
from headrace.client.contexts import Contexts, save
from headrace.testing.in_process import RunningBroker, broker
from headrace.testing.registry import RunningRegistry, registry
from headrace.testing.secured import make_certificates, secured_broker
from tests.support.clock import Stopwatch, wait_for


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@dataclasses.dataclass
class Line:
    item: str
    count: int = 1


@dataclasses.dataclass
class Order:
    id: str
    amount: float
    lines: list[Line]
    size: Size = Size.SMALL
    note: str | None = None
    at: datetime.datetime = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


class Payment(pydantic.BaseModel):
    order: str
    amount: float = 1.0
    tags: dict[str, str] = {}


class Notice(msgspec.Struct):
    text: str
    urgent: bool = False


class Visit(TypedDict):
    page: str
    seconds: int


VALUES: list[tuple[Any, Any]] = [
    (bytes, b"tea"),
    (str, "thé"),
    (dict, {"free": ["form", 1]}),
    (Order, Order("1", 9.5, [Line("tea", 2)], Size.LARGE, "hot")),
    (Payment, Payment(order="1", amount=2.5, tags={"a": "b"})),
    (Notice, Notice("ready", urgent=True)),
    (Visit, {"page": "/", "seconds": 3}),
]
IDS = [getattr(one[0], "__name__", "") for one in VALUES]


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as one:
        yield one


@pytest.fixture(scope="module")
def schemas(running: RunningBroker) -> Iterator[RunningRegistry]:
    with registry(running.bootstrap) as one:
        yield one


@pytest.fixture(scope="module")
def cluster(running: RunningBroker) -> Iterator[Cluster]:
    with headrace.connect(running.bootstrap) as one:
        yield one


@pytest.fixture(scope="module")
def registered(running: RunningBroker, schemas: RunningRegistry) -> Iterator[Cluster]:
    with headrace.connect(running.bootstrap, registry=schemas.url) as one:
        yield one


@pytest.fixture
def name(running: RunningBroker, request: pytest.FixtureRequest) -> str:
    made = "".join(letter if letter.isalnum() else "-" for letter in str(request.node.name)).strip("-")
    running.create_topic(made, 2)
    return made


@pytest.mark.parametrize(("type_", "value"), VALUES, ids=IDS)
def test_a_value_comes_back_as_its_type(cluster: Cluster, name: str, type_: Any, value: Any) -> None:
    topic = cluster.topic(name, type_)
    topic.send(value, key="ann")
    topic.flush()
    (record,) = topic.read(group=name, idle=0.5)
    assert record.value == value
    assert type(record.value) is type(value)
    assert record.key == "ann"


@pytest.mark.parametrize(("type_", "value"), VALUES[3:], ids=IDS[3:])
def test_a_value_comes_back_through_the_registry(registered: Cluster, name: str, type_: Any, value: Any) -> None:
    topic = registered.topic(name, type_)
    topic.send(value)
    topic.flush()
    (record,) = topic.records()
    assert record.raw is not None and record.raw[0] == 0, "the wire format of the registry"
    assert record.value == value


def test_a_reader_hears_of_a_rebalance_and_still_knows_when_it_is_idle(cluster: Cluster, name: str) -> None:
    topic = cluster.topic(name, str)
    topic.send("1")
    topic.flush()
    heard: list[str] = []
    with topic.read(group=name, idle=1, on_rebalance=lambda: heard.append("rebalance")) as reader:
        watch = Stopwatch()
        assert [record.value for record in reader] == ["1"]
    watch.at_most(20, because="a reader that does not know of its partitions waits half a minute for its group")
    assert len(heard) == 2, "once for the assignment, once for the end"


def test_a_subject_of_the_registry_needs_no_type(registered: Cluster, name: str) -> None:
    registered.topic(name, Notice).send(Notice("ready"))
    registered.flush()
    (record,) = registered.topic(name, "registry").records()
    assert record.value == {"text": "ready", "urgent": False}


def test_the_group_continues_after_what_the_loop_body_finished(cluster: Cluster, name: str) -> None:
    topic = cluster.topic(name, str)
    for number in range(5):
        topic.send(str(number), partition=0)
    topic.flush()
    seen = []
    with pytest.raises(RuntimeError):
        for record in topic.read(group=name, idle=1):
            seen.append(record.value)
            if record.value == "2":
                raise RuntimeError
    assert seen == ["0", "1", "2"]
    assert [record.value for record in topic.read(group=name, idle=0.5)] == ["2", "3", "4"]
    assert [record.value for record in topic.read(group=name, idle=0.5)] == []
    assert [(one.topic, one.partition, one.records) for one in cluster.groups.lag(name)] == [(name, 0, 0)]


def test_at_most_once_never_repeats(cluster: Cluster, name: str) -> None:
    topic = cluster.topic(name, str)
    for number in range(3):
        topic.send(str(number), partition=0)
    topic.flush()
    with pytest.raises(RuntimeError):
        for _ in topic.read(group=name, guarantee="at-most-once", idle=1):
            raise RuntimeError
    assert [one.value for one in topic.read(group=name, guarantee="at-most-once", idle=0.5)] == ["1", "2"]


def test_a_transaction_copies_once_or_not_at_all(cluster: Cluster, name: str) -> None:
    source, target = cluster.topic(name, str), cluster.topic(f"{name}-copy", str)
    cluster.topics.create(f"{name}-copy")
    source.send_all(str(number) for number in range(20))

    def copy(fail: bool) -> None:
        with (
            cluster.transactions(name) as transactions,
            source.read(group=name, guarantee="exactly-once", idle=1) as reader,
        ):
            for batch in reader.batches():
                with transactions.begin(reader) as transaction:
                    for record in batch:
                        transaction.send(target, record.value)
                        reader.done(record)
                    if fail:
                        raise RuntimeError

    with pytest.raises(RuntimeError):
        copy(fail=True)
    copy(fail=False)
    copy(fail=False)
    committed = target.read(group="check", guarantee="exactly-once", idle=1)
    assert sorted(int(one.value or "") for one in committed) == list(range(20))


def test_a_transaction_refuses_a_reader_that_commits_itself(cluster: Cluster, name: str) -> None:
    with (
        cluster.transactions(name) as transactions,
        cluster.topic(name, str).read(group=name) as reader,
        pytest.raises(NotPossible, match="exactly-once"),
        transactions.begin(reader),
    ):
        pass


def test_a_queue_delivers_again_what_was_released(running: RunningBroker, cluster: Cluster, name: str) -> None:
    topic = cluster.topic(name, str)
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    reset = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[reset])
    admin.incremental_alter_configs([resource])[resource].result(10)
    topic.send_all(["good", "busy", "bad"])
    seen: list[str] = []
    for delivery in topic.queue(name, idle=3):
        value = delivery.value or ""
        seen.append(value)
        if value == "busy" and seen.count("busy") == 1:
            delivery.release()
        elif value == "bad":
            delivery.reject()
        if len(seen) == 4:
            delivery.ack()
            break
    assert sorted(seen) == ["bad", "busy", "busy", "good"]


def test_follow_sees_new_records(cluster: Cluster, name: str) -> None:
    topic = cluster.topic(name, str)

    async def first() -> str | None:
        async for record in topic.follow(start="earliest"):
            return record.value
        return None

    topic.send("tea")
    topic.flush()
    assert asyncio.run(asyncio.wait_for(first(), 30)) == "tea"


def test_frames(cluster: Cluster, name: str) -> None:
    topic = cluster.topic(name, Notice)
    topic.send(Notice("a"), key="k", partition=0)
    topic.send(Notice("b", urgent=True), partition=0)
    topic.flush()
    table = topic.to_arrow()
    assert table.column_names == ["partition", "offset", "timestamp", "key", "text", "urgent", "error"]
    assert topic.to_pandas()["text"].tolist() == ["a", "b"]
    assert topic.to_polars(last="1h")["urgent"].to_list() == [False, True]
    assert topic.to_duckdb(start=1).fetchall()[0][1] == 1
    assert topic.to_arrow(end=1).num_rows == 1
    assert topic.to_arrow(start=datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)).num_rows == 0
    assert topic.from_frame(topic.to_polars(), key="text") == 2
    # Two partitions: the order between them is not fixed.
    assert sorted(str(one.key) for one in topic.records()) == ["None", "a", "b", "k"]
    assert "<td>k</td>" in topic._repr_html_()


def test_a_record_that_does_not_fit_comes_with_its_error(cluster: Cluster, name: str) -> None:
    cluster.topic(name, bytes).send(b"{not json")
    cluster.topic(name, bytes).send(b'{"page": "/"}')
    cluster.flush()
    records = list(cluster.topic(name, Visit).records())
    errors = sorted(str(record.error) for record in records)
    assert errors[0].startswith("it is no JSON") and errors[1] == "no Visit: field seconds is missing"
    with pytest.raises(WrongValue, match="offset 0"):
        _ = records[0].value
    assert cluster.topic(name, Visit).to_arrow()["error"].null_count == 0


def test_evolution_is_checked_when_the_topic_is_opened(registered: Cluster, name: str) -> None:
    registered.topic(name, Line)
    other = dataclasses.make_dataclass("Line", [("item", int), ("colour", str)])
    with pytest.raises(SchemaRefused, match=f"topic {name}: the registry refuses Line.*incompatible"):
        registered.topic(name, other)


def test_administration(cluster: Cluster, name: str) -> None:
    assert name in cluster.topics
    assert cluster.topics[name].partitions == 2
    assert name in cluster.topics._repr_html_()
    cluster.topics.delete(name)
    with pytest.raises(KeyError, match="there is no topic"):
        _ = cluster.topics[name]
    with pytest.raises(NotPossible, match="was not created"):
        cluster.topics.create("a/b")


def test_a_new_topic_is_awaited_although_brokers_hear_of_it_late(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's controller answers before its brokers have the topic. Here the first answers do not have it."""
    topics, late = cluster.topics, f"{name}-late"
    real, asked = topics._all, []

    def answers() -> dict[str, TopicFacts]:
        asked.append(late)
        known = real()
        return known if len(asked) > 3 else {one: facts for one, facts in known.items() if one != late}

    monkeypatch.setattr(topics, "_all", answers)
    assert topics.create(late).partitions == 1
    assert len(asked) > 3


@dataclasses.dataclass
class Odd:
    size: complex


class Number(enum.Enum):
    ONE = 1


@dataclasses.dataclass
class Counted:
    number: Number


@pytest.mark.parametrize(
    ("type_", "message"),
    [(Odd, "Odd.size: complex has no Avro schema"), (Counted, "Counted.number: the values of Number must be words")],
)
def test_a_type_without_a_schema_is_refused(registered: Cluster, type_: type, message: str) -> None:
    with pytest.raises(NoSchema, match=message):
        registered.topic("odd", type_)


def test_wrong_calls(running: RunningBroker, cluster: Cluster, name: str) -> None:
    with pytest.raises(NoSchema, match="int is no type of values"):
        cluster.topic(name, int)
    with pytest.raises(NoSchema, match="names the schema registry"):
        cluster.topic(name, "registry")
    with pytest.raises(WrongValue, match="this topic takes Notice"):
        cluster.topic(name, Notice).send("text")  # type: ignore[arg-type]
    with pytest.raises(WrongValue, match="this topic takes bytes"):
        cluster.topic(name, bytes).send("text")  # type: ignore[arg-type]
    with pytest.raises(NotPossible, match="guarantee='twice'"):
        cluster.topic(name, str).send("x", guarantee="twice")
    with pytest.raises(NotPossible, match="last='soon'"):
        cluster.topic(name, str).to_arrow(last="soon")
    with pytest.raises(NotPossible, match="has no time zone"):
        cluster.topic(name, str).to_arrow(start=datetime.datetime(2026, 1, 1))
    with pytest.raises(NotPossible, match="both user and password"):
        headrace.connect(running.bootstrap, user="ann")
    with pytest.raises(NotPossible, match="there is no such file"):
        headrace.connect(running.bootstrap, ca_file="/nowhere/ca.crt")


def test_a_failed_delivery_names_the_line_that_sent_it(running: RunningBroker, name: str) -> None:
    cluster = headrace.connect(running.bootstrap)
    topic = cluster.topic(name, str)
    running.fail("Produce", error="INVALID_RECORD", topic=name)
    topic.send("tea")
    with pytest.raises(DeliveryFailed, match=r"INVALID_RECORD.*test_typed_topics\.py:\d+"):
        topic.flush()
    running.heal()
    topic.send("tea")
    cluster.close()
    assert [one.value for one in topic.records()] == ["tea"]


def test_a_closed_cluster_has_no_producer_left_that_creates_its_topics_again(running: RunningBroker, name: str) -> None:
    with headrace.connect(running.bootstrap, settings={"topic.metadata.refresh.interval.ms": 20}) as cluster:
        topic = cluster.topic(name, str)
        topic.send("tea")
        topic.send("tea", guarantee="exactly-once")
    with pytest.raises(NotPossible, match="the connection to the cluster is closed: connect again"):
        topic.send("cake")
    with pytest.raises(NotPossible, match="connect again"):
        topic.send("cake", guarantee="exactly-once")
    assert [one.value for one in topic.records()] == ["tea", "tea"]


def test_a_missing_topic_cannot_be_read() -> None:
    with (
        broker({"auto.create.topics.enable": "false"}) as running,
        pytest.raises(ReadFailed, match="topic missing cannot be read"),
    ):
        list(headrace.connect(running.bootstrap).topic("missing", str).records())


def test_importing_headrace_stays_light() -> None:
    import subprocess
    import sys

    code = "import headrace, sys; print('confluent_kafka' in sys.modules, callable(headrace.connect))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False True\n"


@dataclasses.dataclass
class Measured:
    id: str
    count: int
    share: float
    is_new: bool
    note: str | None = None


GOOD = Measured("a", 1, 0.5, True)
MIXED: list[bytes | None] = [
    b'{"id": "a", "count": 1, "share": 2, "is_new": true}',
    b'{"id": "b", "count": 2, "share": 2.5, "is_new": false, "note": "x", "more": [1]}',
    b'{"id": "c", "count": "2", "share": 2.5, "is_new": false}',
    b'{"id": "d", "count": 2, "share": 2.5}',
    b'{"id": "e",\n "count": 3, "share": 1.5, "is_new": true, "note": null}',
    b'{"id": "f", "count": 3, "share": 1.5, "is_new": true}{"id": "g"}',
    b"",
    b"[]",
    b"\xff",
    None,
]


@pytest.mark.parametrize("values", [MIXED[:2], [MIXED[1], None, MIXED[0]], MIXED, [None], [None, b"[]"], []])
def test_columns_equal_the_records_one_by_one(cluster: Cluster, name: str, values: list[bytes | None]) -> None:
    raw, typed = cluster.topic(name, bytes), cluster.topic(name, Measured)
    for number, value in enumerate(values):
        raw.send(value, key=f"k{number}", partition=number % 2)
    raw.flush()
    table = typed.to_arrow()
    one_by_one = sorted(typed.records(), key=lambda record: (record.partition, record.offset))
    assert table.column_names[:4] == ["partition", "offset", "timestamp", "key"]
    assert [(row["partition"], row["offset"], row["key"]) for row in table.to_pylist()] == [
        (record.partition, record.offset, record.key) for record in one_by_one
    ]
    fields = [field.name for field in dataclasses.fields(Measured)]
    for row, record in zip(table.to_pylist(), one_by_one, strict=True):
        assert row["error"] == record.error and row["timestamp"] == record.timestamp
        decoded = record.decoded
        assert [row[field] for field in fields] == [getattr(decoded, field, None) for field in fields]
    assert raw.to_arrow()["value"].to_pylist() == [record.raw for record in one_by_one]


def test_columns_through_the_registry_equal_the_records(registered: Cluster, name: str) -> None:
    name += "-one-partition"
    registered.topics.create(name)
    typed = registered.topic(name, Measured)
    typed.send_all([GOOD, dataclasses.replace(GOOD, id="b", note="x")])
    typed.send(None, key="gone")
    registered.topic(name, bytes).send(b"no schema id")
    registered.flush()
    table = typed.to_arrow()
    assert table["id"].to_pylist() == ["a", "b", None, None] and table["note"].to_pylist() == [None, "x", None, None]
    errors = table["error"].to_pylist()
    assert errors[:3] == [None, None, None] and errors[3]
    assert table["key"].to_pylist() == [None, None, "gone", None]


def test_columns_leave_aborted_and_open_transactions_out(running: RunningBroker, cluster: Cluster, name: str) -> None:
    topic = cluster.topic(name, str)
    with cluster.transactions(f"{name}-id") as transactions:
        with pytest.raises(KeyError), transactions.begin() as transaction:
            transaction.send(topic, "aborted")
            raise KeyError
        with transactions.begin() as transaction:
            transaction.send(topic, "committed")
    wait_for(lambda: topic.to_arrow()["value"].to_pylist() == ["committed"], "the committed record")
    hanging = Producer({"bootstrap.servers": running.bootstrap, "transactional.id": f"{name}-open", "log_level": 0})
    hanging.init_transactions(20)
    hanging.begin_transaction()
    hanging.produce(name, "open")
    hanging.flush(20)
    assert topic.to_arrow()["value"].to_pylist() == ["committed"]
    assert [record.value for record in topic.records()] == ["committed"]
    hanging.abort_transaction(20)


def test_a_notebook_shows_the_newest_records_and_a_live_table_follows(cluster: Cluster, name: str) -> None:
    topic = cluster.topic(name, str)
    for number in range(30):
        topic.send(f"<{number}>", partition=0)
    topic.flush()
    assert [record.value for record in topic.last(3)] == ["<27>", "<28>", "<29>"]
    shown = topic._repr_html_()
    assert "&lt;29&gt;" in shown and "&lt;20&gt;" in shown and "&lt;19&gt;" not in shown, "ten rows, escaped"
    pages: list[str] = []
    live = topic.live(rows=2, every=0.01, show=pages.append)
    assert [record.value for record in live.records] == ["<28>", "<29>"]
    numbers = iter(range(1000))

    def is_followed() -> bool:
        topic.send(f"new {next(numbers)}", partition=1)
        topic.flush()
        return any("new " in page for page in pages)

    wait_for(is_followed, "the table to show a new record")
    live.stop()
    assert len(live.records) == 2 and "stopped" in live._repr_html_()
    with pytest.raises(NotPossible, match="at least one record"):
        topic.last(0)


def test_a_context_of_the_commands_gives_address_and_login(
    running: RunningBroker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CONFIG", str(tmp_path / "config.yaml"))
    with pytest.raises(NotPossible, match="'shop' is neither HOST:PORT nor a context"):
        headrace.connect("shop")
    make_certificates(tmp_path / "certificates")
    with secured_broker(tmp_path / "certificates") as secured:
        login = secured.client("admin")
        lines = [f"{key}={value}" for key, value in login.items() if key != "bootstrap.servers"]
        (tmp_path / "client.properties").write_text("\n".join(lines))
        save(
            Contexts(
                "shop",
                {"shop": running.bootstrap, "safe": secured.bootstrap},
                {"safe": str(tmp_path / "client.properties")},
            )
        )
        assert name in headrace.connect().topics and name in headrace.connect("shop").topics
        safe = headrace.connect("safe")
        safe.topics.create("orders")
        safe.topic("orders", str).send_all(["tea"])
        assert safe.topic("orders", str).to_arrow()["value"].to_pylist() == ["tea"], "TLS and SCRAM for columns too"
    (tmp_path / "config.yaml").write_text("[")
    with pytest.raises(NotPossible, match="is not YAML"):
        headrace.connect()


def test_a_group_that_is_used_in_another_way_is_refused(cluster: Cluster, name: str) -> None:
    topic = cluster.topic(name, str)
    topic.send_all(["tea"])
    list(topic.read(group=f"{name}-read", idle=0.1))
    with pytest.raises(ReadFailed, match=r"is a consumer group already: queue\(\) needs a group"):
        next(iter(topic.queue(f"{name}-read", idle=20)))
    queue = topic.queue(f"{name}-queue", idle=0.5)
    assert list(queue) == []
    with pytest.raises(ReadFailed, match="the group is used in another way already"):
        list(topic.read(group=f"{name}-queue", idle=20))
