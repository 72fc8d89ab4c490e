"""ACLs on a cluster: every broker applies them at once, and they survive restarts and an outage of ZooKeeper.

Covers CVE-2024-27309 (Kafka lost ACLs of a resource after one of several was removed): on every broker, after a restart
of all brokers, and after an outage of ZooKeeper.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
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
from kazoo.client import KazooClient

from headrace.wire import codec
from tests.differential.servers import plain, read_answer
from tests.support.clock import PATIENCE_S, Stopwatch, wait_for
from tests.support.cluster import RunningCluster

USERS = ("broker", "ann", "bob", "cem", "dan")
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "zookeeper.set.acl": "false",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="broker" password="broker" ' + " ".join(f'user_{name}="{name}"' for name in USERS) + ";"
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker",
    "audit.topic": "__audit",
}
TOPIC_DENIED, OK = 29, 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("acls"), settings=SETTINGS) as running:
        yield running


def login(cluster: RunningCluster) -> dict[str, str]:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "broker"}
    return {"bootstrap.servers": cluster.bootstrap, **settings, "sasl.password": "broker"}


def admin(cluster: RunningCluster) -> AdminClient:
    return AdminClient(login(cluster))


def read(user: str) -> AclBinding:
    allow, literal = AclPermissionType.ALLOW, ResourcePatternType.LITERAL
    return AclBinding(ResourceType.TOPIC, "orders", literal, f"User:{user}", "*", AclOperation.READ, allow)


def of_user(user: str) -> AclBindingFilter:
    any_type, any_pattern = ResourceType.ANY, ResourcePatternType.ANY
    return AclBindingFilter(any_type, None, any_pattern, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY)


def ask(port: int, user: str, api_key: int, version: int, body: Mapping[str, Any]) -> Any:
    """Sends one request to this broker, after a login with PLAIN."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        for key, number, content in (
            (17, 1, {"mechanism": "PLAIN"}),
            (36, 2, {"auth_bytes": f"\0{user}\0{user}".encode()}),
            (api_key, version, body),
        ):
            client.sendall(codec.encode_request(key, number, 1, "test", content))
            answer = plain(codec.read_response(key, number, read_answer(client))[1])
            assert key == api_key or answer["error_code"] == 0, answer
    return answer


def error_of_topic(port: int, user: str) -> int:
    body = {"topics": [{"topic_id": None, "name": "orders"}], "allow_auto_topic_creation": False}
    answer = ask(port, user, 3, 12, {**body, "include_topic_authorized_operations": False})
    return int(answer["topics"][0]["error_code"])


def errors(cluster: RunningCluster, *users: str) -> dict[tuple[int, str], int]:
    return {(number, user): error_of_topic(one.port, user) for number, one in cluster.brokers.items() for user in users}


def wait_until_only(cluster: RunningCluster, *allowed: str) -> None:
    """Checks that on every broker exactly these users may describe the topic."""
    expected = {user: OK if user in allowed else TOPIC_DENIED for user in USERS[1:]}

    def as_expected() -> bool:
        found = errors(cluster, *expected)
        return all(code == expected[user] for (_, user), code in found.items())

    wait_for(as_expected, lambda: f"only {allowed} to be allowed, not {errors(cluster, *expected)}")


def test_every_broker_drops_a_removed_acl_within_a_second_and_keeps_the_others(cluster: RunningCluster) -> None:
    client = admin(cluster)
    client.create_topics([NewTopic("orders", 3, 3)])["orders"].result(PATIENCE_S)
    for done in client.create_acls([read("ann"), read("bob"), read("cem")]).values():
        done.result(PATIENCE_S)
    wait_until_only(cluster, "ann", "bob", "cem")
    [deleted] = client.delete_acls([of_user("bob")]).values()
    assert len(deleted.result(PATIENCE_S)) == 1
    watch = Stopwatch()
    wait_for(lambda: set(errors(cluster, "bob").values()) == {TOPIC_DENIED}, "bob to be denied by every broker")
    watch.at_most(1.0, because="brokers watch the image; without a watch event they read it after two seconds")
    wait_until_only(cluster, "ann", "cem")


def test_acls_survive_a_restart_of_every_broker(cluster: RunningCluster) -> None:
    for one in cluster.brokers.values():
        one.stop()
    for one in cluster.brokers.values():
        one.start()
    wait_until_only(cluster, "ann", "cem")


def test_acls_apply_during_and_after_a_zookeeper_outage(cluster: RunningCluster) -> None:
    """Denied requests stay denied at every moment: before, during and after the outage."""
    cluster.zookeeper.stop()
    assert set(errors(cluster, "bob", "dan").values()) == {TOPIC_DENIED}
    cluster.zookeeper.start()
    wait_until_only(cluster, "ann", "cem")
    client = admin(cluster)
    [created] = client.create_acls([read("dan")]).values()
    created.result(PATIENCE_S)
    wait_until_only(cluster, "ann", "cem", "dan")
    [deleted] = client.delete_acls([of_user("dan")]).values()
    deleted.result(PATIENCE_S)
    wait_until_only(cluster, "ann", "cem")


def test_brokers_apply_acls_that_another_program_writes_to_zookeeper(cluster: RunningCluster) -> None:
    """As kafka-acls of Kafka 3 does with `--authorizer-properties zookeeper.connect=…`."""
    zookeeper = KazooClient(cluster.zookeeper.connect)
    zookeeper.start()
    try:
        path = "/kafka-acl/Topic/orders"
        rows = json.loads(zookeeper.get(path)[0])["acls"]
        rows.append({"principal": "User:dan", "permissionType": "Allow", "operation": "Read", "host": "*"})
        rows = [row for row in rows if row["principal"] != "User:ann"]
        zookeeper.set(path, json.dumps({"version": 1, "acls": rows}).encode())
        zookeeper.create("/kafka-acl-changes/acl_changes_", b"", sequence=True)
        wait_until_only(cluster, "cem", "dan")
        zookeeper.delete(path)
        zookeeper.create("/kafka-acl-changes/acl_changes_", b"", sequence=True)
        wait_until_only(cluster)
        client = admin(cluster)
        [created] = client.create_acls([read("ann")]).values()
        created.result(PATIENCE_S)
        wait_until_only(cluster, "ann")
    finally:
        zookeeper.stop()
        zookeeper.close()


def test_denials_are_in_the_log(cluster: RunningCluster) -> None:
    error_of_topic(cluster.brokers[1].port, "bob")
    expected = (
        "Principal = User:bob is Denied operation = DESCRIBE from host = 127.0.0.1 on resource = Topic:LITERAL:orders"
    )
    wait_for(lambda: f"{expected} for request = Metadata" in cluster.brokers[1].output, "the denial in the log")


def test_denials_of_every_broker_are_in_the_audit_topic(cluster: RunningCluster) -> None:
    for one in cluster.brokers.values():
        error_of_topic(one.port, "bob")
    reader = Consumer({**login(cluster), "group.id": "auditor"})
    found: list[dict[str, Any]] = []

    def all_brokers_are_there() -> bool:
        message = reader.poll(1)
        if message is not None and message.error() is None:
            found.append(json.loads(message.value() or b""))
        return {event["broker"] for event in found if event.get("principal") == "User:bob"} == set(cluster.brokers)

    try:
        reader.assign([TopicPartition("__audit", 0, 0)])
        wait_for(all_brokers_are_there, lambda: f"denials of every broker, not {found}")
    finally:
        reader.close()
    event = next(event for event in found if event.get("principal") == "User:bob")
    assert {name: event[name] for name in event if name not in ("time_ms", "broker")} == {
        "principal": "User:bob",
        "host": "127.0.0.1",
        "operation": "DESCRIBE",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "request": "Metadata",
        "allowed": False,
        "rule": "DefaultDeny",
    }
