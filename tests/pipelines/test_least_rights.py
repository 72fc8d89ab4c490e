"""A connector runs with the rights that `headrace acl for-pipeline` prints for it, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headrace.cli.facts.pipeline_topics import topics_of_pipeline
from headrace.client.blocking.client import BlockingClient
from headrace.client.security import ClientSecurity
from headrace.pipelines.connectors.connector import load_pipeline, pipeline_run
from headrace.records.builder import Record
from headrace.security.acl import least_rights
from headrace.testing import broker
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.support.clock import PATIENCE_S

LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f'{LOGIN_MODULE} user_admin="admin" user_flow="flow";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def login(user: str) -> dict[str, str]:
    jaas = f'{LOGIN_MODULE} username="{user}" password="{user}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}


def test_a_connector_runs_with_the_rights_that_are_printed_for_it(spark: Any, tmp_path: Path) -> None:
    with broker(SETTINGS, data_dir=tmp_path / "data") as running:
        client = BlockingClient(running.bootstrap, security=ClientSecurity.from_settings(login("admin")))
        cluster = Cluster("headrace", running.bootstrap, client)
        source, target = cluster.topic(), "target"
        cluster.write(source, [Record(None, b'{"id": 1}', timestamp_ms=1), Record(None, b"?", timestamp_ms=2)])
        lines = "".join(f"  {name}: '{value}'\n" for name, value in login("flow").items())
        file = tmp_path / "guarded.yml"
        file.write_text(
            f"bootstrap: {running.bootstrap}\nkafka:\n{lines}from:\n  topic: {{name: {source}, schema: id int}}\n"
            f"to:\n  topic: {{name: {target}}}\n"
        )
        grant(running.bootstrap, file)
        run = pipeline_run(file, load_pipeline(file), spark, once=True, report=lambda _: None)
        run.start()
        run.supervise()
        assert values_of(cluster, target) == {b'{"id":1}': 1}
        assert values_of(cluster, f"{source}.dlq") == {b"?": 1}
        assert client.committed_offsets("guarded.guarded") == {(source, 0): (2, "")}
        client.close()


def grant(bootstrap: str, file: Path) -> None:
    found = topics_of_pipeline(file)
    acls = least_rights.acls(least_rights.of_pipeline(found.name, found.reads, found.writes), "User:flow")
    admin = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admin",
        }
    )
    bindings = [
        AclBinding(
            ResourceType[acl.pattern.resource_type.name],
            acl.pattern.name,
            ResourcePatternType[acl.pattern.pattern_type.name],
            acl.entry.principal,
            acl.entry.host,
            AclOperation[acl.entry.operation.name],
            AclPermissionType[acl.entry.permission.name],
        )
        for acl in acls
    ]
    for done in admin.create_acls(bindings).values():
        done.result(PATIENCE_S)
