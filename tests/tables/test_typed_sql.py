"""Relations with the typed columns of the registry, live and beside a typed table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.errors import PipelineError
from headrace.records.builder import Record
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.registry_client import RegistryClient
from headrace.tables.definitions import Definitions, first_offsets, topic_metadata
from headrace.tables.first_columns import first_columns
from headrace.tables.formats.table_files import file_writer
from headrace.tables.formats.table_log import DataFile
from headrace.tables.lake_table import DEAD_LETTERS, LakeTable
from headrace.tables.library import sql
from headrace.tables.relations.topic_ranges import whole_topic
from headrace.tables.relations.topic_relation import KAFKA_COLUMNS
from headrace.tables.relations.topic_scan import read_range
from headrace.tables.sql_prompt import Completer
from headrace.tables.sql_session import SqlSession
from headrace.tables.table_logs import layout_of, log_of
from headrace.tables.table_repair import repair_table
from headrace.tables.typed_rows import TypedRows
from tests.support.registry import registry
from tests.tables.conftest import T0_MS, Brokers

ORDER = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "amount", "type": "double"},
    {"name": "lines", "type": {"type": "array", "items": "string"}}]}"""


@pytest.fixture(scope="module")
def url(brokers: Brokers) -> Iterator[str]:
    with registry(brokers.bootstrap) as running:
        yield running.url


def send(brokers: Brokers, url: str, topic: str, numbers: range) -> None:
    encoder = RecordEncoder(RegistryClient(url), schema=ORDER)
    values = [encoder.encode(topic, {"id": n, "amount": n / 2, "lines": ["a"] * (n % 3)}) for n in numbers]
    pairs = zip(numbers, values, strict=True)
    brokers.write(topic, [Record(b"k%d" % (n % 5), v, (), timestamp_ms=T0_MS + 1000 * n) for n, v in pairs])


def ask(session: SqlSession, statement: str) -> list[dict[str, Any]]:
    answer = session.query(statement)
    assert answer is not None
    return answer.read().rows()


def test_columns_of_the_schema(brokers: Brokers, url: str) -> None:
    topic = brokers.topic(1)
    send(brokers, url, topic, range(20))
    brokers.write(topic, [Record(b"bad", b"not avro", (), timestamp_ms=T0_MS)])
    with SqlSession(brokers.cluster, registry=url) as session:
        (row,) = ask(session, f"SELECT count(*) AS n, sum(amount) AS total, max(len(lines)) AS most FROM {topic}")
        assert row == {"n": 21, "total": 95.0, "most": 2}
        assert [row["id"] for row in ask(session, f"SELECT id FROM {topic} WHERE _key = 'k3' ORDER BY id")] == [
            3,
            8,
            13,
            18,
        ]
        (bad,) = ask(session, f"SELECT _error, _offset FROM {topic} WHERE _error IS NOT NULL")
        assert bad["_offset"] == 20
        assert bad["_error"]
        last = ask(session, f"SELECT id, _offset FROM {topic} ORDER BY _offset DESC LIMIT 2")
        assert last == [{"id": None, "_offset": 20}, {"id": 19, "_offset": 19}]
    found = sql(f"SELECT id FROM {topic} WHERE _offset < 2 ORDER BY _offset", bootstrap=brokers.bootstrap, registry=url)
    assert found.polars()["id"].to_list() == [0, 1]


def test_the_prompt_completes_topics_and_their_columns(brokers: Brokers, url: str) -> None:
    topic, plain = brokers.topic(1), brokers.topic(1)
    send(brokers, url, topic, range(1))
    with SqlSession(brokers.cluster, registry=url) as session:
        completer = Completer(session)
        assert completer.completions("SELECT * FROM ", topic) == [topic]
        assert completer.completions("SELECT ", "off") == ['"offset"']
        assert completer.completions("SELECT ", "lin") == []
        assert completer.completions(f"SELECT count(*) FROM {topic}\nWHERE ", "LIN") == ["lines"]
        assert completer.completions(f"SELECT count(*) FROM {plain} WHERE ", "lin") == []
        assert completer.completions(f"SELECT count(*) FROM {topic}.", "l") == ["live", "lines"]
        # The columns of earlier statements.
        assert completer.completions("SELECT ", "lin") == ["lines"]


def test_a_table_of_a_topic_without_the_asked_schema_is_refused(brokers: Brokers, url: str, tmp_path: Path) -> None:
    topic = brokers.topic(1)
    table = LakeTable(topic, "id", str(tmp_path / "lake"), columns="registry", registry=url)
    with pytest.raises(PipelineError, match=f"{topic}-value"):
        first_columns(table, lambda: pytest.fail("no session of Spark is needed"))
    assert not (tmp_path / "lake").exists()


def test_a_topic_without_a_schema_keeps_kafkas_columns(brokers: Brokers, url: str) -> None:
    topic = brokers.topic(1)
    brokers.write(topic, [Record(b"k", b"v", (), timestamp_ms=T0_MS)])
    with SqlSession(brokers.cluster, registry=url) as session:
        assert ask(session, f"SELECT key, value FROM {topic}") == [{"key": "k", "value": "v"}]
    with (
        SqlSession(brokers.cluster, registry="http://127.0.0.1:9") as session,
        pytest.raises(PipelineError, match=r"registry 'http://127.0.0.1:9'"),
    ):
        ask(session, f"SELECT * FROM {topic}")


@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_a_typed_table_and_its_topic_are_one_relation(brokers: Brokers, url: str, tmp_path: Path, form: str) -> None:
    topic = brokers.topic(1)
    send(brokers, url, topic, range(10))
    found = topic_metadata(brokers.client, topic)
    catalog = f"sqlite:///{tmp_path}/catalog.db" if form == "iceberg" else ""
    table = LakeTable(
        topic,
        str(found.topic_id),
        str(tmp_path / "lake"),
        columns="registry",
        registry=url,
        format=form,
        catalog=catalog,
    )
    typed = TypedRows.latest(topic, url)
    log_of(table).create(typed.columns, [], first_offsets(brokers.client, found, "all", None))
    Definitions(tmp_path / "tables").add(table, brokers.bootstrap)
    copy_typed(brokers, table, typed)
    brokers.write(topic, [Record(b"bad", b"not avro", (), timestamp_ms=T0_MS)])
    send(brokers, url, topic, range(10, 15))
    brokers.delete_records(topic, 7)
    with SqlSession(brokers.cluster, tables=tmp_path / "tables") as session:
        everything = ask(session, f"SELECT id, _offset, _key FROM {topic} ORDER BY _offset")
        # The record that cannot be decoded is a dead letter of the table.
        assert [row["id"] for row in everything] == list(range(15))
        assert [row["_offset"] for row in everything] == [*range(10), *range(11, 16)]
        assert everything[3]["_key"] == "k3"
        assert len(ask(session, f"SELECT * FROM {topic}.history")) == 10
        assert len(ask(session, f"SELECT * FROM {topic}.live")) == 8
        brokers.write(topic, [Record(b"bad", b"not avro", (), timestamp_ms=T0_MS)])
        assert len(ask(session, f"SELECT * FROM {topic}.live ORDER BY _offset DESC LIMIT 1")) == 1
        late = ask(
            session, f"SELECT id FROM {topic} WHERE _timestamp >= to_timestamp({T0_MS // 1000 + 13}) ORDER BY id"
        )
        assert [row["id"] for row in late] == [13, 14]


def test_a_field_named_offset_is_not_the_offset_of_the_record(brokers: Brokers, url: str) -> None:
    topic = brokers.topic(1)
    schema = '{"type": "record", "name": "Move", "fields": [{"name": "offset", "type": "long"}]}'
    encoder = RecordEncoder(RegistryClient(url), schema=schema)
    values = [encoder.encode(topic, {"offset": 100 - n}) for n in range(20)]
    brokers.write(topic, [Record(b"k", value, (), timestamp_ms=T0_MS) for value in values])
    with SqlSession(brokers.cluster, registry=url) as session:
        found = ask(session, f'SELECT "offset", _offset FROM {topic} ORDER BY "offset" DESC LIMIT 1')
    assert found == [{"offset": 100, "_offset": 0}]


def test_the_relation_of_a_table_with_dead_letters_has_the_schema_of_the_table(
    brokers: Brokers, url: str, tmp_path: Path
) -> None:
    """A newer schema that does not fit: its records are dead letters of the table, and so no rows of the relation."""
    topic = brokers.topic(1)
    send(brokers, url, topic, range(2))
    found = topic_metadata(brokers.client, topic)
    settings: dict[str, Any] = {"columns": "registry", "registry": url, "incompatible": DEAD_LETTERS}
    table = LakeTable(topic, str(found.topic_id), str(tmp_path / "lake"), **settings)
    typed = TypedRows.latest(topic, url)
    log_of(table).create(typed.columns, [], first_offsets(brokers.client, found, "all", None))
    Definitions(tmp_path / "tables").add(table, brokers.bootstrap)
    copy_typed(brokers, table, typed)
    registered = RegistryClient(url)
    registered.call("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
    newer = RecordEncoder(registered, schema=ORDER.replace('"long"', '"string"'))
    value = newer.encode(topic, {"id": "two", "amount": 1.0, "lines": []})
    brokers.write(topic, [Record(b"k", value, (), timestamp_ms=T0_MS)])
    send(brokers, url, topic, range(3, 4))
    with SqlSession(brokers.cluster, tables=tmp_path / "tables") as session:
        assert [row["id"] for row in ask(session, f"SELECT id FROM {topic} ORDER BY _offset")] == [0, 1, 3]


def test_a_field_named_day_is_a_column_of_the_relation(brokers: Brokers, url: str, tmp_path: Path) -> None:
    topic = brokers.topic(1)
    schema = '{"type": "record", "name": "Shift", "fields": [{"name": "day", "type": "string"}]}'
    encoder = RecordEncoder(RegistryClient(url), schema=schema)
    days = ["Monday", "Tuesday"]

    def shift(day: str) -> Record:
        return Record(b"k", encoder.encode(topic, {"day": day}), (), timestamp_ms=T0_MS)

    brokers.write(topic, [shift(day) for day in days])
    found = topic_metadata(brokers.client, topic)
    table = LakeTable(topic, str(found.topic_id), str(tmp_path / "lake"), columns="registry", registry=url)
    typed = TypedRows.latest(topic, url)
    log_of(table).create(typed.columns, [], first_offsets(brokers.client, found, "all", None))
    Definitions(tmp_path / "tables").add(table, brokers.bootstrap)
    copy_typed(brokers, table, typed)
    brokers.write(topic, [shift("Friday")])
    with SqlSession(brokers.cluster, tables=tmp_path / "tables") as session:
        everything = f"SELECT day FROM {topic} ORDER BY _offset"
        assert [row["day"] for row in ask(session, everything)] == [*days, "Friday"]
        Path(log_of(table).open().files()[0]).unlink()
        assert repair_table(table, brokers.client, dry_run=False).records == 2
        assert [row["day"] for row in ask(session, everything)] == [*days, "Friday"]


def copy_typed(brokers: Brokers, table: LakeTable, typed: TypedRows) -> None:
    log, files = log_of(table), list[DataFile]()
    for piece in whole_topic(brokers.client, table.topic):
        batches = []
        for batch in read_range(brokers.client, piece, KAFKA_COLUMNS):
            placed = batch.append_column("__partition", batch.column("partition"))
            batches.append(placed.append_column("__offset", batch.column("offset")))
        for written in file_writer(layout_of(table, log.columns()), {}, typed)(iter(batches)):
            for row in written.to_pylist():
                files.append(DataFile(row["path"], row["size"], row["rows"], json.loads(row["keys"]), row["stats"]))
        log.append(files, {piece.partition: piece.end}, log.offsets(), 1)
