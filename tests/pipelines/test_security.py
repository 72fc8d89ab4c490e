"""TLS and SASL with Apache Kafka: the client, Spark's source and sink, the progress of a pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli.pipeline.command import app
from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.produce import Transaction
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import Fault
from headrace.pipelines.connectors.connector import load_pipeline, pipeline_run
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.secured_kafka import USER, SecuredKafka, secured_kafka
from tests.pipelines.test_sink import values_of
from tests.reference.kafka import ReferenceUnavailable
from tests.support.clock import PATIENCE_S
from tests.support.effort import is_long

pytestmark = pytest.mark.needs("kafka", "openssl")
_WAYS = [
    "SSL",
    "SASL_SSL PLAIN",
    "SASL_SSL SCRAM-SHA-256",
    "SASL_SSL SCRAM-SHA-512",
    "SASL_PLAINTEXT PLAIN",
    "SASL_PLAINTEXT SCRAM-SHA-512",
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    try:
        with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
            yield running
    except ReferenceUnavailable as unavailable:
        pytest.skip(str(unavailable))


def reached(kafka: SecuredKafka, way: str) -> Cluster:
    client = BlockingClient(
        kafka.bootstrap(way), security=ClientSecurity.from_settings(kafka.settings(way)), patience_s=PATIENCE_S
    )
    return Cluster("apache", kafka.bootstrap(way), client)


@pytest.mark.parametrize("way", _WAYS)
def test_a_transaction_is_written_and_read(kafka: SecuredKafka, way: str) -> None:
    cluster = reached(kafka, way)
    topic = cluster.topic()
    transaction = Transaction(cluster.client, f"tx-{topic}", timeout_ms=60_000)
    transaction.begin()
    # More than one TLS record and more than one read of the socket.
    big = b"x" * 300_000
    cluster.write(topic, [Record(b"k", big, timestamp_ms=1_700_000_000_000)], transaction=transaction)
    transaction.commit(f"group-{topic}", {(topic, 0): (1, "")})
    assert values_of(cluster, topic) == {big: 1}
    cluster.client.close()


@pytest.mark.parametrize(
    ("way", "other", "words"),
    [
        ("SASL_SSL PLAIN", {"password": "wrong"}, rf"127\.0\.0\.1:\d+ refused '{USER}': .*nvalid"),
        ("SASL_SSL SCRAM-SHA-512", {"password": "wrong"}, rf"127\.0\.0\.1:\d+ refused '{USER}': .*nvalid"),
        ("SASL_SSL PLAIN", {"ssl.truststore.location": "stranger"}, r"not trusted \(.*\): give the authority"),
        ("SASL_SSL PLAIN", {"bootstrap": "localhost"}, r"not trusted \(Hostname mismatch.*localhost"),
        ("SASL_PLAINTEXT PLAIN", {"security.protocol": "SASL_SSL"}, r"no TLS with .*: is this a TLS listener\?"),
        ("SASL_SSL PLAIN", {"security.protocol": "PLAINTEXT"}, r"speaks TLS.*security\.protocol"),
        ("SSL", {"ssl.keystore.location": ""}, r"security\.protocol=SSL"),
    ],
)
def test_rejected_login_is_reported_with_a_remedy(
    kafka: SecuredKafka, way: str, other: dict[str, str], words: str
) -> None:
    settings = kafka.settings(way, other["password"]) if "password" in other else kafka.settings(way)
    settings |= {name: value for name, value in other.items() if "." in name}
    if other.get("ssl.truststore.location") == "stranger":
        settings["ssl.truststore.location"] = kafka.certificates.stranger
    address = kafka.bootstrap(way).replace("127.0.0.1", other.get("bootstrap", "127.0.0.1"))
    client = BlockingClient(address, security=ClientSecurity.from_settings(settings), patience_s=1)
    with pytest.raises(Fault) as refusal:
        client.topics(None)
    assert re.search(words, refusal.value.message), refusal.value.message


@pytest.mark.parametrize("way", ["SSL", "SASL_SSL SCRAM-SHA-512"] if is_long() else ["SASL_SSL SCRAM-SHA-512"])
def test_spark_reads_and_writes_with_the_options_of_its_own_connector(
    spark: Any, kafka: SecuredKafka, official_jars: list[Path], way: str
) -> None:
    cluster = reached(kafka, way)
    source, target = cluster.topic(), cluster.topic()
    cluster.write(source, [Record(b"%d" % i, b"v%d" % i, timestamp_ms=1_700_000_000_000) for i in range(20)])
    options = cluster.options(**{f"kafka.{name}": value for name, value in kafka.settings(way).items()})
    read = spark.read.format("headrace").options(**options).option("subscribe", source).load()
    read.select("key", "value").write.format("headrace").options(**options).option("topic", target).mode(
        "append"
    ).save()
    assert values_of(cluster, target) == {b"v%d" % i: 1 for i in range(20)}
    if official_jars:
        theirs = spark.read.format("kafka").options(**options).option("subscribe", source).load()
        assert sorted(theirs.collect()) == sorted(read.collect())
    wrong = {**options, "subscribe": source, "kafka.ssl.truststore.location": kafka.certificates.stranger}
    with pytest.raises(Exception, match="not trusted"):
        spark.read.format("headrace").options(**wrong).load().collect()
    cluster.client.close()


def test_connector_and_its_progress_use_the_same_settings(
    spark: Any, kafka: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = "SASL_SSL SCRAM-SHA-256"
    cluster = reached(kafka, way)
    source, target = cluster.topic(), cluster.topic()
    cluster.write(source, [Record(None, b'{"id": 1}', timestamp_ms=1), Record(None, b"?", timestamp_ms=2)])
    settings = kafka.settings(way)
    monkeypatch.setenv("LOGIN", settings["sasl.jaas.config"])
    lines = "".join(f"  {name}: {value}\n" for name, value in {**settings, "sasl.jaas.config": "$LOGIN"}.items())
    file = tmp_path / "guarded.yml"
    file.write_text(
        f"bootstrap: {cluster.bootstrap}\nkafka:\n{lines}from:\n  topic: {{name: {source}, schema: id int}}\n"
        f"to:\n  topic: {{name: {target}}}\n"
    )
    run = pipeline_run(file, load_pipeline(file), spark, once=True, report=lambda _: None)
    run.start()
    run.supervise()
    assert values_of(cluster, target) == {b'{"id":1}': 1}
    assert values_of(cluster, f"{source}.dlq") == {b"?": 1}
    assert cluster.client.committed_offsets("guarded.guarded") == {(source, 0): (2, "")}
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()).replace("\\", "\\\\"))
    asked = ["ls", "--bootstrap", cluster.bootstrap, "--command-config", str(properties)]
    assert "guarded.guarded  stopped" in CliRunner().invoke(app, asked).output
    cluster.client.close()
