"""SQL over topics: the rows of an independent consumer, and no more fetches than the query needs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import headrace
from headrace.kernel.errors import Fault
from headrace.records.builder import Record
from headrace.tables.relations import relation_rows
from headrace.tables.relations.topic_scan import TopicScan
from headrace.tables.sql_errors import SqlError
from headrace.tables.sql_session import SqlSession
from tests.tables.conftest import T0_MS, Brokers, orders


@pytest.fixture
def session(brokers: Brokers) -> Iterator[SqlSession]:
    with SqlSession(brokers.cluster) as opened:
        yield opened


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """(partition, start, end) of the ranges that statements fetch."""
    ranges: list[tuple[int, int, int]] = []
    original = TopicScan

    def noting(cluster: object, pieces: list[object], *rest: object, **named: object) -> object:
        ranges.extend((p.partition, p.start, p.end) for p in pieces)  # type: ignore[attr-defined]
        return original(cluster, pieces, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(relation_rows, "TopicScan", noting)
    return ranges


@pytest.fixture(scope="module")
def topic(brokers: Brokers) -> str:
    """Three partitions with committed and aborted transactions, nulls, and records that retention has removed."""
    name = brokers.topic(3)
    for partition in range(3):
        brokers.write(name, orders(50), partition=partition)
        brokers.write_transaction(name, orders(10, start=50), partition=partition, commit=partition != 1)
        brokers.write(
            name,
            [Record(None, b"\xff\x00", (), timestamp_ms=T0_MS), Record(b"k", None, (), timestamp_ms=T0_MS)],
            partition=partition,
        )
    brokers.delete_records(name, 7, partition=2)
    return name


def values(session: SqlSession, statement: str) -> list[tuple[object, ...]]:
    answer = session.query(statement)
    assert answer is not None
    return [tuple(row.values()) for row in answer.read().rows()]


def test_rows_equal_those_of_an_independent_consumer(brokers: Brokers, topic: str) -> None:
    expected = brokers.independent_read(topic)
    assert len(expected) == 3 * 62 - 10 - 7
    found = headrace.sql(  # type: ignore[operator]
        f'SELECT partition, "offset", key, value FROM {topic} ORDER BY ALL', bootstrap=brokers.bootstrap, binary=True
    )
    assert [tuple(row.values()) for row in found.rows()] == expected
    assert len(found.pandas()) == len(found.polars()) == found.arrow().num_rows == len(expected)


def test_json_values_headers_and_time(session: SqlSession, topic: str) -> None:
    statement = f"""SELECT key, (value->>'amount')::DOUBLE, headers[1].value, timestamp, topic
        FROM {topic} WHERE partition = 0 AND "offset" = 3"""
    noon = datetime.fromtimestamp(T0_MS / 1000 + 3, UTC)
    assert values(session, statement) == [("k3", 3.5, b"3", noon, topic)]


def test_text_that_is_not_utf_8_has_replacement_characters(session: SqlSession, topic: str) -> None:
    assert values(session, f"SELECT DISTINCT value FROM {topic} WHERE key IS NULL") == [("\ufffd\x00",)]


@pytest.mark.parametrize(
    ("condition", "rows", "ranges"),
    [
        ("partition = 1", 52, {(1, 0, 63)}),
        ("partition IN (0, 2)", 117, {(0, 0, 63), (2, 7, 63)}),
        ('partition = 0 AND "offset" BETWEEN 10 AND 19', 10, {(0, 10, 20)}),
        ('"offset" > 1000', 0, set()),
        (f"partition = 0 AND timestamp >= make_timestamptz({(T0_MS + 45_000) * 1000})", 15, {(0, 45, 63)}),
        ("timestamp >= TIMESTAMPTZ '2999-01-01'", 0, set()),
    ],
)
def test_predicates_shorten_the_fetches(
    session: SqlSession,
    topic: str,
    fetched: list[tuple[int, int, int]],
    condition: str,
    rows: int,
    ranges: set[tuple[int, int, int]],
) -> None:
    assert values(session, f"SELECT count(*) FROM {topic} WHERE {condition}") == [(rows,)]
    assert set(fetched) == ranges


def test_predicates_shorten_the_fetches_of_joins_and_views(
    session: SqlSession, topic: str, fetched: list[tuple[int, int, int]]
) -> None:
    session.query(f'CREATE VIEW recent AS SELECT * FROM {topic} WHERE "offset" >= 40')
    join = f"SELECT count(*) FROM recent r JOIN {topic} t USING (key)"
    statement = f'{join} WHERE r.partition = 0 AND t.partition = 1 AND t."offset" < 5'
    assert values(session, statement) == [(20,)]
    assert set(fetched) == {(0, 40, 63), (1, 0, 5)}


def test_last_rows_come_from_the_end_of_the_topic(
    session: SqlSession, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(relation_rows, "TopicScan")
    statement = (
        f'SELECT partition, "offset" FROM {topic} WHERE partition < 2 ORDER BY "offset" DESC, partition LIMIT 15'
    )
    # Partition 1 has a gap of eleven offsets: ten aborted records and their marker.
    both = [(p, o) for o in (62, 61) for p in (0, 1)]
    expected = [*both, *((0, o) for o in range(59, 49, -1)), (0, 49)]
    assert values(session, statement) == sorted(expected, key=lambda row: (-row[1], row[0]))[:15]
    whole = statement.replace(f"FROM {topic}", f"FROM (SELECT * FROM {topic})")
    monkeypatch.undo()
    assert values(session, statement) == values(session, whole)


def test_topics_whose_names_differ_in_capitals_only(brokers: Brokers, session: SqlSession) -> None:
    small = brokers.topic(1)
    large = small.upper()
    brokers.client.create_topic(large, 1, configs={"retention.ms": "-1"})
    for name, count in ((small, 2), (large, 3)):
        brokers.write(name, orders(count))
    for name, count in ((small, 2), (large, 3), (small, 2)):
        assert values(session, f"SELECT count(*) FROM {name}") == [(count,)]
        assert values(session, f"SELECT count(*) FROM {name}.live") == [(count,)]
    with pytest.raises(SqlError, match="read them in two statements"):
        session.query(f"SELECT * FROM {small} JOIN {large} USING (key)")


def test_limit_stops_the_scan(brokers: Brokers, session: SqlSession) -> None:
    name = brokers.topic(2)
    for partition in range(2):
        brokers.write(name, orders(1000), partition=partition)
    assert len(values(session, f"SELECT * FROM {name} LIMIT 3")) == 3
    assert values(session, f"SELECT count(*) FROM {name}.live") == [(2000,)]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT nix\nFROM {topic}", 'line 1, column 8: Referenced column "nix" not found'),
        ("SELECT *\nFROM {topic}\nWHERE\n  nix = 1", "line 4, column 3: "),
        (
            "SELECT * FROM {topic}x",
            "line 1, column 15: relation '{topic}x' does not exist: it is not a topic of the cluster",
        ),
        ("SELECT offset FROM {topic}", 'write the column as "offset" in double quotes'),
        ("SELECT * FROM {topic} ORDER BY offset", 'write the column as "offset" in double quotes'),
        ("SELEC 1", "line 1, column 1: syntax error"),
        ("SELECT 'é', nix", "line 1, column 13: "),
        ("SELECT get_json_object(value, '$.id') FROM {topic}", "column 8: get_json_object is a function of Spark"),
        ("SELECT window(timestamp, '1 minute') FROM {topic}", "window(…) is a function of Spark"),
        ("SELECT value::INT FROM {topic}", "Could not convert string"),
    ],
)
def test_sql_errors_have_line_and_column(session: SqlSession, topic: str, statement: str, message: str) -> None:
    with pytest.raises(SqlError) as raised:
        values(session, statement.format(topic=topic))
    assert message.format(topic=topic) in str(raised.value)
    assert values(session, "SELECT 1") == [(1,)]


def test_statements_of_a_file_keep_their_lines(session: SqlSession) -> None:
    with pytest.raises(SqlError, match="line 3, column 8: "):
        for statement, line in session.statements("SELECT 1;\n\nSELECT nix;"):
            session.query(statement, line)


def test_an_error_of_a_broker_is_reported_in_its_own_words(
    brokers: Brokers, session: SqlSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = brokers.topic(1)
    brokers.write(name, orders(3))

    def failing(*_: object) -> object:
        raise Fault("the disk of broker 1 is offline")

    monkeypatch.setattr(relation_rows, "whole_topic", failing)
    with pytest.raises(Fault, match="the disk of broker 1 is offline"):
        values(session, f"SELECT * FROM {name}")
