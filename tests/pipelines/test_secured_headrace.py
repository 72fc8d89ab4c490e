"""Spark on a secured Headrace broker: its own Kafka connector and ours, through TLS and SCRAM-SHA-512 with ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.blocking.client import BlockingClient
from headrace.client.security import ClientSecurity
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.support.certificates import Authority
from tests.support.sasl import PASSWORD, sasl_broker

MECHANISM = "SCRAM-SHA-512"
COUNT = 20


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """The cluster, and the settings of a client."""
    authority = Authority.make(tmp_path_factory.mktemp("certificates"))
    settings = {
        "listener.security.protocol.map": "LOCAL:PLAINTEXT,CLIENTS:SASL_SSL",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:anna;User:ANONYMOUS",
        **authority.issue("broker").properties(),
    }
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{module} username="anna" password="{PASSWORD}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
    }
    with (
        sasl_broker(settings) as served,
        BlockingClient(served.bootstrap, security=ClientSecurity.from_settings(client)) as own,
    ):
        yield Cluster("headrace", served.bootstrap, own), client


@pytest.mark.parametrize("connector", ["kafka", "headrace"])
def test_spark_reads_and_writes(
    spark: Any, official_jars: list[Path], secured: tuple[Cluster, dict[str, str]], connector: str
) -> None:
    if connector == "kafka" and not official_jars:
        pytest.skip("the jars of Spark's own connector are not available")
    cluster, settings = secured
    source, target = cluster.topic(), cluster.topic()
    cluster.write(source, [Record(b"%d" % i, b"v%d" % i, timestamp_ms=1_700_000_000_000) for i in range(COUNT)])
    options = cluster.options(**{f"kafka.{name}": value for name, value in settings.items()})
    read = spark.read.format(connector).options(**options).option("subscribe", source).load()
    assert sorted(bytes(row.value) for row in read.collect()) == sorted(b"v%d" % i for i in range(COUNT))
    writer = read.select("key", "value").write.format(connector).options(**options).option("topic", target)
    writer.mode("append").save()
    assert values_of(cluster, target) == {b"v%d" % i: 1 for i in range(COUNT)}
    wrong = options | {"kafka.sasl.jaas.config": settings["sasl.jaas.config"].replace(PASSWORD, "guess")}
    with pytest.raises(Exception, match=r"(?i)refused|authentication"):
        spark.read.format(connector).options(**wrong).option("subscribe", source).load().collect()
