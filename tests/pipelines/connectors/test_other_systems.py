"""S3 objects, HTTP, Redis and MQTT as ends of connectors, with real servers and repeated batches."""

from __future__ import annotations

import gzip
import importlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs
import pyarrow.parquet
import pytest

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.plugins.api import Batch, Ledger
from headrace.pipelines.plugins.batch_ledger import write_once
from headrace.pipelines.plugins.columns import parse_columns
from headrace.pipelines.plugins.journal import Journal
from headrace.pipelines.plugins.journaled_reads import read_chunk
from headrace.pipelines.plugins.mqtt_source import MqttSource
from headrace.pipelines.plugins.objects import ObjectSource
from headrace.pipelines.plugins.redis_sink import LEDGER, RedisSink
from headrace.pipelines.plugins.webhook import Webhook
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.connectors.conftest import Connect
from tests.pipelines.connectors.servers import (
    HttpServer,
    running_http_server,
    running_mosquitto,
    running_object_store,
    running_redis,
)
from tests.pipelines.test_sink import values_of
from tests.support.clock import wait_for
from tests.support.names import unique


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with running_object_store() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="module")
def mqtt_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running_mosquitto(tmp_path_factory.mktemp("mqtt")) as port:
        yield port


@pytest.fixture
def http() -> Iterator[HttpServer]:
    with running_http_server() as server:
        yield server


def fill(headrace: Cluster, topic: str, *values: bytes, key: bytes | None = None) -> None:
    headrace.write(topic, [Record(key, value, timestamp_ms=int(time.time() * 1000)) for value in values])


def files(endpoint: str) -> Any:
    address = endpoint.removeprefix("http://")
    return pyarrow.fs.S3FileSystem(
        access_key="k", secret_key="s", endpoint_override=address, scheme="http", allow_bucket_creation=True
    )


def access(endpoint: str, bucket: str) -> str:
    return f"bucket: {bucket}, endpoint: '{endpoint}', access_key: k, secret_key: s"


def test_new_objects_become_records_and_a_batch_becomes_one_object(
    store: str, headrace: Cluster, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pipelines.plugins.objects._ROWS_AT_ONCE", 3)
    bucket, topic = unique("bucket"), headrace.topic()
    s3 = files(store)
    s3.create_dir(bucket)

    def put(key: str, data: bytes) -> None:
        with s3.open_output_stream(f"{bucket}/{key}", compression=None) as out:
            out.write(data)

    put("in/a.json", b'{"id": 1, "ok": true}\n{"id": 2}\n\n{"id": 3}\n{"id": 4}\n')
    put("in/sub/b.json.gz", gzip.compress(b'{"id": 5}\n'))
    put("elsewhere/c.json", b'{"id": 99}\n')
    text = (
        f"from:\n  s3: {{{access(store, bucket)}, prefix: in, format: json, schema: 'id bigint, ok boolean'}}\n"
        f"to:\n  topic: {{name: {topic}, key: id}}\n"
    )
    connect(text)
    put("in/a-later-but-smaller-key.json", b'{"id": 6}\n')
    connect(text)
    connect(text)
    seen = values_of(headrace, topic)
    assert sorted(json.loads(value)["id"] for value in seen.elements()) == [1, 2, 3, 4, 5, 6]
    assert seen[b'{"id":1,"ok":true}'] == 1
    for form in ("json", "parquet"):
        connect(
            f"from:\n  topic: {{name: {topic}, schema: 'id bigint, ok boolean'}}\n"
            f"to:\n  s3: {{{access(store, bucket)}, prefix: out/{form}, format: {form}}}\n",
            f"sink-{form}",
        )
    found = s3.get_file_info(pyarrow.fs.FileSelector(f"{bucket}/out", recursive=True))
    objects = {info.extension: info.path for info in found if info.is_file}
    lines = [json.loads(line) for line in s3.open_input_stream(objects["json"]).read().splitlines()]
    assert sorted(row["id"] for row in lines) == [1, 2, 3, 4, 5, 6]
    with s3.open_input_file(objects["parquet"]) as file:
        assert sorted(pyarrow.parquet.read_table(file)["id"].to_pylist()) == [1, 2, 3, 4, 5, 6]


def test_csv_objects_and_lines_are_read_and_a_bad_one_is_named(store: str) -> None:
    bucket = unique("bucket")
    s3 = files(store)
    s3.create_dir(bucket)
    with s3.open_output_stream(f"{bucket}/x/a.csv") as out:
        out.write(b'name,id,ok\n"two\nlines",1,true\n,2,\n')
    given = {"bucket": bucket, "prefix": "x", "endpoint": store, "access_key": "k", "secret_key": "s"}
    schema = "id bigint, name string, ok boolean"
    source = ObjectSource(End("s3", {**given, "format": "csv", "schema": schema, "header": True}, "c.yml: from.s3"))
    rows = list(source.read(None).rows)
    assert rows == [{"id": 1, "name": "two\nlines", "ok": True}, {"id": 2, "name": "", "ok": None}]
    lines = ObjectSource(End("s3", given, "c.yml: from.s3")).read(None).rows
    assert [(row["value"], row["line"]) for row in lines][:2] == [("name,id,ok", 1), ('"two', 2)]
    with s3.open_output_stream(f"{bucket}/x/b.csv") as out:
        out.write(b"name,id,ok\nx,seven,true\n")
    with pytest.raises(PipelineError, match=rf"from.s3: object {bucket}/x/b.csv, row 1: .*'seven'"):
        source.read(source.read(None).offset)
    with pytest.raises(OptionError, match='format json needs a "schema"'):
        ObjectSource(End("s3", {**given, "format": "json"}, "c.yml: from.s3"))


def test_webhook_gets_each_row_once_and_continues_after_a_crash(http: HttpServer, tmp_path: Path) -> None:
    sink = Webhook(End("http", {"url": http.url, "headers": {"X-Key": "v"}}, "c.yml: to.http"))
    rows = [{"id": i} for i in range(6)]
    http.failures += [200, 503, 200, 400]
    with pytest.raises(PipelineError, match=r"to.http: POST http://127.0.0.1:\d+/hook answered 400"):
        write_once(sink, tmp_path, "flow-1", 7, lambda: Batch.of(["id"], rows))
    # The batch comes again after a restart, with a new object.
    sink = Webhook(sink.settings)
    write_once(sink, tmp_path, "flow-1", 7, lambda: Batch.of(["id"], rows))
    write_once(sink, tmp_path, "flow-1", 7, lambda: Batch.of(["id"], rows))
    keys = [headers["Idempotency-Key"] for _, headers, _ in http.requests]
    assert keys == [f"flow-1-7-{n}" for n in (0, 1, 1, 2, 2, 3, 4, 5)]
    assert [json.loads(body)["id"] for _, _, body in http.requests] == [0, 1, 1, 2, 2, 3, 4, 5]
    assert http.requests[0][1]["X-Key"] == "v"
    many = Webhook(End("http", {"url": http.url, "rows_per_request": 4}, "p"))
    http.requests.clear()
    write_once(many, tmp_path, "flow-1", 8, lambda: Batch.of(["id"], rows))
    assert [len(json.loads(body)) for _, _, body in http.requests] == [4, 2]


def test_polled_rows_become_records_once(http: HttpServer, headrace: Cluster, connect: Connect) -> None:
    topic = headrace.topic()
    http.rows = [{"id": i, "name": f"n{i}"} for i in range(8)]
    text = (
        f"from:\n  http: {{url: '{http.url}', rows: data.items, cursor: id, schema: 'id bigint, name string'}}\n"
        f"to:\n  topic: {{name: {topic}, key: id}}\n"
    )
    connect(text)
    http.rows += [{"id": 8, "name": None}]
    connect(text)
    seen = values_of(headrace, topic)
    assert sorted(json.loads(value)["id"] for value in seen.elements()) == list(range(9))
    document = headrace.topic()
    text = f"from:\n  http: {{url: '{http.url}'}}\nto:\n  topic: {{name: {document}}}\n"
    for content in ("one", "one", "two"):
        http.document = content
        connect(text, "document")
    assert values_of(headrace, document) == {b"one": 1, b"two": 1}


def test_rows_and_ledger_reach_redis_in_one_transaction(
    redis_url: str, headrace: Cluster, connect: Connect, tmp_path: Path
) -> None:
    import redis

    client = redis.Redis.from_url(redis_url, decode_responses=True)
    topic = headrace.topic()
    fill(headrace, topic, b'{"id": 1, "name": "a"}', b'{"id": 2, "name": "b"}', key=b"1")
    prefix = unique("people")
    text = (
        f'from:\n  topic: {{name: {topic}, schema: "id int, name string"}}\n'
        f"to:\n  redis: {{url: '{redis_url}', key: id, prefix: '{prefix}:'}}\n"
    )
    connect(text)
    assert client.hgetall(f"{prefix}:2") == {"id": "2", "name": "b"}
    headrace.write(topic, [Record(b"2", None, timestamp_ms=int(time.time() * 1000))])
    fill(headrace, topic, b'{"id": 1, "name": null}')
    connect(text)
    assert client.hgetall(f"{prefix}:2") == {}
    assert client.hgetall(f"{prefix}:1") == {"id": "1"}
    sink = RedisSink(End("redis", {"url": redis_url, "key": "id", "as": "list", "prefix": prefix}, "c.yml: to.redis"))
    name = unique("flow")
    batch = Batch.of(["id"], [{"id": 7}, {"id": 7}])
    for _ in range(3):
        # Without the runner's own ledger, as after a crash before it was written.
        sink.write(batch, Ledger(name, 4))
    assert client.lrange(f"{prefix}7", 0, -1) == ['{"id":7}', '{"id":7}']
    assert client.hget(LEDGER, name) == "4"
    with pytest.raises(PipelineError, match="column 'id' of a row is null"):
        sink.write(Batch.of(["id"], [{"id": 8}, {"id": None}]), Ledger(name, 5))
    assert client.exists(f"{prefix}8") == 0
    with pytest.raises(OptionError, match="key 'id' is not a column; there are other"):
        sink.write(Batch.of(["other"], []), Ledger(name, 5))
    client.close()


def test_another_flow_may_finish_a_batch_while_one_is_written_to_redis(redis_url: str) -> None:
    import redis

    client, prefix, name = redis.Redis.from_url(redis_url), unique("people"), unique("flow")
    others = iter(range(2))

    def rows() -> Iterator[dict[str, int]]:
        if (batch := next(others, None)) is not None:
            client.hset(LEDGER, unique("other"), batch)
        yield {"id": 7}

    settings = {"url": redis_url, "key": "id", "as": "list", "prefix": prefix}
    sink = RedisSink(End("redis", settings, "c.yml: to.redis"))
    sink.write(Batch(("id",), rows), Ledger(name, 0))
    assert client.lrange(f"{prefix}7", 0, -1) == [b'{"id":7}']
    assert client.hget(LEDGER, name) == b"0"
    sink.close()
    client.close()


def publisher(port: int) -> Any:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2, client_id=unique("publisher"))
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client


def test_mqtt_messages_become_records_also_those_sent_while_away(
    mqtt_port: int, headrace: Cluster, connect: Connect
) -> None:
    topic, place = headrace.topic(), unique("sensors")
    text = (
        f"from:\n  mqtt: {{host: 127.0.0.1, port: {mqtt_port}, topics: ['{place}/#'], client_id: {place}}}\n"
        f"select: SELECT topic AS key, payload AS value FROM source\nto:\n  topic: {{name: {topic}}}\n"
    )
    connect(text)
    client = publisher(mqtt_port)
    for number in range(100):
        client.publish(f"{place}/{number % 3}", f"m{number}", qos=1).wait_for_publish(30)
    connect(text)
    client.publish(f"{place}/9", "last", qos=1).wait_for_publish(30)
    connect(text)
    client.disconnect()
    client.loop_stop()
    assert values_of(headrace, topic) == {**{b"m%d" % n: 1 for n in range(100)}, b"last": 1}


def test_mqtt_message_that_was_stored_and_not_acknowledged_is_taken_once(mqtt_port: int, tmp_path: Path) -> None:
    place = unique("doubles")
    end = End("mqtt", {"host": "127.0.0.1", "port": mqtt_port, "topics": [place], "client_id": place}, "c.yml: from")
    columns, journal = parse_columns(MqttSource(end).columns()), Journal(tmp_path / "journal")
    first = MqttSource(end)
    first.read(None)
    client = publisher(mqtt_port)
    for number in range(5):
        client.publish(place, f"m{number}", qos=1).wait_for_publish(30)
    # The process dies after the journal has the rows and before the broker has the acknowledgements.
    first.commit = lambda offset: None  # type: ignore[method-assign]
    wait_for(lambda: read_chunk(first, columns, journal) and len(list(journal.rows(0, journal.last()))) == 5, "rows")
    assert first._client is not None and first._client.socket() is not None
    first._client.socket().close()  # type: ignore[union-attr]
    second = MqttSource(end)
    client.publish(place, "new", qos=1).wait_for_publish(30)
    wait_for(lambda: len(list(journal.rows(0, read_chunk(second, columns, journal)))) >= 6, "the new message")
    assert [row[1] for row in journal.rows(0, journal.last())] == ["m0", "m1", "m2", "m3", "m4", "new"]
    second.close()
    client.disconnect()
    client.loop_stop()


def test_mqtt_messages_that_wait_when_the_connection_is_lost_are_taken_once(mqtt_port: int, tmp_path: Path) -> None:
    place = unique("again")
    end = End("mqtt", {"host": "127.0.0.1", "port": mqtt_port, "topics": [place], "client_id": place}, "c.yml: from")
    columns, journal = parse_columns(MqttSource(end).columns()), Journal(tmp_path / "journal")
    source, client = MqttSource(end), publisher(mqtt_port)
    source.read(None)
    for number in range(5):
        client.publish(place, f"m{number}", qos=1).wait_for_publish(30)
    wait_for(lambda: source._waiting.qsize() == 5, "messages that wait")
    connection = source._client
    assert connection is not None
    old = connection.socket()
    assert isinstance(old, socket.socket)
    # The client connects again by itself, and the broker sends everything again that is not acknowledged.
    old.shutdown(socket.SHUT_RDWR)
    wait_for(lambda: connection.is_connected() and connection.socket() not in (None, old), "the new connection")
    client.publish(place, "new", qos=1).wait_for_publish(30)
    wait_for(lambda: source._waiting.qsize() in (6, 11), "the messages again")
    read_chunk(source, columns, journal)
    assert [row[1] for row in journal.rows(0, journal.last())] == ["m0", "m1", "m2", "m3", "m4", "new"]
    source.close()
    client.disconnect()
    client.loop_stop()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("mqtt: {host: 127.0.0.1, port: 1, topics: [x], client_id: c}", "127.0.0.1:1 cannot be reached"),
        ("mqtt: {host: h, client_id: c}", '"topics" is missing'),
        ("http: {url: 'ftp://x'}", "must begin with http:// or https://"),
        ("http: {url: 'http://127.0.0.1:1/x', attempts: 1}", "GET http://127.0.0.1:1/x cannot be reached"),
        ("s3: {bucket: b, format: xml}", "format 'xml' must be one of lines, json, csv"),
        ("mqqt: {}", "'mqqt' is unknown (did you mean \"mqtt\"?): use topic, file, jdbc, cdc, s3, http, mqtt, lines"),
    ],
)
def test_error_names_what_is_wrong(connect: Connect, source: str, words: str) -> None:
    with pytest.raises(PipelineError) as refusal:
        connect(f"from:\n  {source}\nto: console\n")
    assert words in str(refusal.value)


def test_missing_library_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name=name.split(".")[0])

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(PipelineError) as refusal:
        RedisSink(End("redis", {"url": "redis://x", "key": "id"}, "c.yml: to.redis"))
    assert str(refusal.value) == (
        "c.yml: to.redis: the library 'redis' is not installed: pip install 'headrace[connectors]'"
    )
