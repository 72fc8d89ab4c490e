"""One Spark session and one broker of each kind for all pipeline tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.produce import BatchProducer, Section, Transaction
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.session import spark_session
from headrace.pipelines.spark.connector_jars import cached_jars, fetch_jars
from headrace.pipelines.spark.java import JavaMissing, find_java
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.testing.process import broker_process
from tests.pipelines.mariadb import MariaDbUnavailable, running_mariadb
from tests.pipelines.postgres import PostgresUnavailable, running_postgres
from tests.reference.kafka import KEEPS_OLD_RECORDS, ReferenceKafka, ReferenceUnavailable
from tests.support.effort import is_long

_numbers = itertools.count()


@pytest.fixture(scope="session")
def official_jars() -> list[Path]:
    """Jars of Spark's own connector; empty if they are not available."""
    try:
        return cached_jars() or fetch_jars(report=lambda _: None)
    except PipelineError:
        return []


@pytest.fixture(scope="session")
def spark(official_jars: list[Path]) -> Iterator[Any]:
    try:
        find_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))
    settings = {"spark.jars": ",".join(map(str, official_jars))} if official_jars else {}
    if not is_long():
        # Hundreds of queries with a few rows each: compiling their stages takes longer than interpreting them. The long
        # effort, the commands and the jobs that tests start use compiled stages.
        settings["spark.sql.codegen.wholeStage"] = "false"
    session = spark_session("tests", master="local[2]", settings=settings)
    yield session
    session.stop()


@dataclass
class Cluster:
    """A broker under test, with operations for tests."""

    kind: str
    bootstrap: str
    client: BlockingClient

    def topic(self, partitions: int = 1, **configs: str) -> str:
        name = f"t{next(_numbers)}"
        # The timestamps of the records are fixed and old: retention must not delete them during a test.
        chosen = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        self.client.create_topic(name, partitions, configs=chosen)
        return name

    def write(
        self,
        topic: str,
        records: list[Record],
        *,
        partition: int = 0,
        codec: Codec = Codec.NONE,
        transaction: Transaction | None = None,
    ) -> None:
        producer = BatchProducer(self.client, codec=codec, transaction=transaction)
        times = [record.timestamp_ms for record in records]
        section = Section(build_batch(records)[HEADER_BYTES:], len(records), times[0], max(times))
        producer.send((topic, partition), section)
        producer.flush()

    def options(self, **options: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, **options}

    def delete_topic(self, topic: str) -> None:
        self.client.refresh()
        controller = self.client.broker(self.client._map.controller)
        controller.call("delete_topics", {"topic_names": [topic], "timeout": 30_000})

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        body = {
            "topics": [{"name": topic, "partitions": [{"partition_index": partition, "offset": before}]}],
            "timeout": 10_000,
        }
        self.client.leader((topic, partition)).call("delete_records", body)


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Apache Kafka: every test must give the same result on it."""
    try:
        with ReferenceKafka(tmp_path_factory.mktemp("kafka"), settings=KEEPS_OLD_RECORDS, heap="512m") as kafka:
            yield Cluster("apache", kafka.bootstrap, BlockingClient(kafka.bootstrap))
    except ReferenceUnavailable as unavailable:
        pytest.skip(str(unavailable))


@pytest.fixture(scope="session")
def headrace() -> Iterator[Cluster]:
    with broker_process() as broker:
        yield Cluster("headrace", broker.bootstrap, BlockingClient(broker.bootstrap))


@pytest.fixture(params=["headrace", "apache"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


# For a test whose queries take seconds: on Apache Kafka only with the long effort.
apache_when_long = pytest.mark.parametrize(
    "cluster", ["headrace", "apache"] if is_long() else ["headrace"], indirect=True
)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A real PostgreSQL with logical decoding."""
    try:
        with running_postgres() as url:
            yield url
    except PostgresUnavailable as unavailable:
        pytest.skip(str(unavailable))


@pytest.fixture(scope="session")
def mariadb() -> Iterator[str]:
    """A real MariaDB with a binary log of whole rows."""
    try:
        with running_mariadb() as url:
            yield url
    except MariaDbUnavailable as unavailable:
        pytest.skip(str(unavailable))


def records(count: int, *, start: int = 0, timestamp_ms: int = 1_700_000_000_000) -> list[Record]:
    return [
        Record(
            None if i % 7 == 0 else b"k%d" % i,
            None if i % 11 == 0 else b"value %d" % i,
            (("n", b"%d" % i), ("none", None)) if i % 3 == 0 else (),
            timestamp_ms=timestamp_ms + i,
        )
        for i in range(start, start + count)
    ]
