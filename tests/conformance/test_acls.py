"""ACLs with confluent-kafka's AdminClient and Kafka's kafka-acls, and the effect of ACLs on clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from headrace.testing import RunningBroker, broker
from tests.reference.kafka import run_tool
from tests.support.clock import wait_for

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OPEN_TO_THE_TEST = {"authorizer.class.name": STANDARD, "super.users": "User:admin;User:ANONYMOUS"}
RULED_BY_ACLS = {"authorizer.class.name": STANDARD, "super.users": "User:admin"}
KAFKA_ACLS = "org.apache.kafka.tools.AclCommand"


def binding(
    name: str,
    operation: AclOperation,
    *,
    principal: str = "User:ANONYMOUS",
    permission: AclPermissionType = AclPermissionType.ALLOW,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, "*", operation, permission)


EVERY = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def admin(running: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": running.bootstrap})


def create(client: AdminClient, *bindings: AclBinding) -> None:
    for done in client.create_acls(list(bindings)).values():
        done.result()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningBroker]:
    with broker(OPEN_TO_THE_TEST, data_dir=tmp_path / "data") as started:
        yield started


def test_confluent_kafka_creates_describes_and_deletes_acls(running: RunningBroker) -> None:
    client = admin(running)
    wanted = [
        binding("orders", AclOperation.READ, principal="User:ann"),
        binding("orders", AclOperation.WRITE, principal="User:bob", permission=AclPermissionType.DENY),
        binding("app-", AclOperation.READ, kind=ResourceType.GROUP, pattern=ResourcePatternType.PREFIXED),
    ]
    create(client, *wanted)
    assert sorted(map(str, client.describe_acls(EVERY).result())) == sorted(map(str, wanted))
    [deleted] = client.delete_acls(
        [AclBindingFilter(ResourceType.TOPIC, "orders", ResourcePatternType.MATCH, "User:ann", None, *_ANY)]
    ).values()
    assert list(map(str, deleted.result())) == [str(wanted[0])]
    assert len(client.describe_acls(EVERY).result()) == 2


_ANY = (AclOperation.ANY, AclPermissionType.ANY)


def test_without_an_authorizer_acls_are_refused_with_security_disabled() -> None:
    with broker() as plain:
        client = admin(plain)
        with pytest.raises(KafkaException) as refused:
            create(client, binding("orders", AclOperation.READ))
        assert refused.value.args[0].name() == "SECURITY_DISABLED"


def topics_seen(client: AdminClient) -> set[str]:
    return {name for name in client.list_topics(timeout=30).topics if not name.startswith("__")}


def written(running: RunningBroker, topic: str) -> str | None:
    """Error of one produced record, or None."""
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": running.bootstrap, "message.timeout.ms": 5000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error.name()) if error else None)
    producer.flush(30)
    return errors[0] if errors else None


def test_acls_limit_what_a_client_sees_and_writes_and_survive_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(OPEN_TO_THE_TEST, data_dir=data) as running:
        client = admin(running)
        for done in client.create_topics([NewTopic(name, 1) for name in ("orders", "secret", "app-1")]).values():
            done.result()
        create(
            client,
            binding("orders", AclOperation.READ),
            binding("app-", AclOperation.WRITE, pattern=ResourcePatternType.PREFIXED),
            binding("app-1", AclOperation.READ, permission=AclPermissionType.DENY),
        )
    with broker(RULED_BY_ACLS, data_dir=data) as running:
        client = admin(running)
        assert topics_seen(client) == {"orders", "app-1"}, "the topics that it may describe"
        assert written(running, "app-1") is None
        assert written(running, "orders") == "TOPIC_AUTHORIZATION_FAILED"
        assert written(running, "secret") == "TOPIC_AUTHORIZATION_FAILED"
        with pytest.raises(KafkaException) as refused:
            create(client, binding("orders", AclOperation.READ))
        assert refused.value.args[0].name() == "CLUSTER_AUTHORIZATION_FAILED"


@pytest.mark.needs("kafka")
def test_kafkas_own_kafka_acls_adds_lists_and_removes(running: RunningBroker) -> None:
    def acls(*arguments: str) -> str:
        done = run_tool(KAFKA_ACLS, "--bootstrap-server", running.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    topic = ("--topic", "orders")
    acls("--add", "--allow-principal", "User:ann", "--producer", *topic, "--allow-host", "10.0.0.0/8")
    acls("--add", "--deny-principal", "User:bob", "--operation", "Read", "--topic", "or", *_PREFIXED)
    client = admin(running)
    wait_for(lambda: len(client.describe_acls(EVERY).result()) == 4, "the four ACLs")
    listed = acls("--list", *topic, "--resource-pattern-type", "match")
    assert "principal=User:ann, host=10.0.0.0/8, operation=WRITE, permissionType=ALLOW" in listed
    assert "patternType=PREFIXED" in listed and "principal=User:bob, host=*, operation=READ" in listed
    acls("--remove", "--force", *topic)
    assert len(client.describe_acls(EVERY).result()) == 1


_PREFIXED = ("--resource-pattern-type", "prefixed")
