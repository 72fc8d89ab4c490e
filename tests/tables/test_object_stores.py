"""Tables in an S3 store. The server is moto's, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from headrace.net.free_ports import free_port
from headrace.pipelines.errors import PipelineError
from headrace.tables.definitions import Definitions, first_offsets, topic_metadata
from headrace.tables.lake_table import LakeTable
from headrace.tables.relations.topic_relation import kafka_schema
from headrace.tables.sql_session import SqlSession
from headrace.tables.table_logs import log_of
from tests.support.clock import wait_for
from tests.tables import copy_job
from tests.tables.conftest import Brokers, orders


def _answers(url: str) -> bool:
    try:
        with closing(urlopen(url)):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def s3() -> Iterator[subprocess.Popen[bytes]]:
    """A server whose address is in the environment, where all libraries find it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    settings = {
        "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    before = {name: os.environ.get(name) for name in settings}
    os.environ |= settings
    try:
        wait_for(lambda: _answers(url), "the S3 server")
        with closing(urlopen(Request(f"{url}/lake", method="PUT"))):
            pass
        yield server
    finally:
        server.kill()
        server.wait()
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_in_s3_equals_its_topic(brokers: Brokers, s3: Any, tmp_path: Path, form: str) -> None:
    topic = brokers.topic(2)
    found = topic_metadata(brokers.client, topic)
    catalog = f"sqlite:///{tmp_path}/catalog.db" if form == "iceberg" else ""
    table = LakeTable(topic, str(found.topic_id), f"s3://lake/{topic}", format=form, catalog=catalog)
    log = log_of(table)
    log.create(kafka_schema(binary=True), [], first_offsets(brokers.client, found, "all", None))
    Definitions(tmp_path / "tables").add(table, brokers.bootstrap)
    for partition in range(2):
        brokers.write(topic, orders(20), partition=partition)
        brokers.write_transaction(topic, orders(5), partition=partition, commit=False)
        copy_job.copy(brokers.cluster, table)
    log.compact(1 << 20, 24)
    copy_job.copy(brokers.cluster, table)
    rows = log.open().dataset().to_table().to_pylist()
    assert sorted((r["partition"], r["offset"], r["key"], r["value"]) for r in rows) == brokers.independent_read(topic)
    brokers.write(topic, orders(3))
    with SqlSession(brokers.cluster, tables=tmp_path / "tables") as session:
        answer = session.query(f"SELECT count(*) AS n FROM {topic}")
        assert answer is not None
        assert answer.read().rows() == [{"n": 43}]


def test_a_store_that_is_gone_is_a_sentence(brokers: Brokers, s3: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The last test of this module: it ends the server."""
    table = LakeTable("orders", "id-1", "s3://lake/orders")
    log_of(table).create(kafka_schema(binary=True), [], {0: 0})
    s3.kill()
    s3.wait()
    with pytest.raises(PipelineError, match="s3://lake/orders"):
        log_of(table).append([], {0: 5}, {0: 0}, 1)
