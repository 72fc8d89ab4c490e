"""A broker with SASL users and ACLs: what clients without the rights cannot do, see or change.

`tests/differential/test_authorization_answers.py` compares the answers of each API with Apache Kafka's. The tests here
check the effects that answers do not show: a denied request changes nothing.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation, Permission, ResourceType
from headrace.testing import RunningBroker, broker
from tests.differential.authorization_data_cases import TRANSACTIONAL, fetch_body
from tests.differential.data_variants import batch, produce_body
from tests.differential.secured_servers import ADMIN, PASSWORD, SETTINGS, SecuredServer, jaas
from tests.differential.table import create_topic
from tests.support.clock import PATIENCE_S, wait_for

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_ACLS, DELETE_ACLS, ALTER_QUOTAS = 0, 1, 2, 3, 30, 31, 49
SHARE_FETCH, SHARE_ACKNOWLEDGE, FIND_COORDINATOR = 78, 79, 10
GROUP_DENIED: Final = ErrorCode.group_authorization_failed
USERS: Final = ("ann", "bob", "writer", "quick", "slow")


class Secured:
    def __init__(self, running: RunningBroker) -> None:
        self.running = running
        self.server = SecuredServer("Headrace", running.port)

    def allow(self, user: str, operation: Operation, resource_type: ResourceType, name: str) -> None:
        acl = {
            "resource_type": int(resource_type),
            "resource_name": name,
            "resource_pattern_type": 3,
            "principal": f"User:{user}",
            "host": "*",
            "operation": int(operation),
            "permission_type": int(Permission.ALLOW),
        }
        answer = self.server.ask(CREATE_ACLS, 3, {"creations": [acl]})
        assert not answer["results"][0]["error_code"], answer

    def forget(self, user: str, resource_type: ResourceType, name: str) -> None:
        selected = {
            "resource_type_filter": int(resource_type),
            "resource_name_filter": name,
            "pattern_type_filter": 3,
            "principal_filter": f"User:{user}",
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        }
        answer = self.server.ask(DELETE_ACLS, 3, {"filters": [selected]})
        assert len(answer["filter_results"][0]["matching_acls"]) == 1, answer

    def ask(self, user: str, api_key: int, version: int, body: dict[str, Any]) -> Any:
        return self.server.ask_as(user, api_key, version, body)

    def end_offset(self, topic: str) -> int:
        asked = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
        body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [asked]}]}
        answer = self.server.ask(LIST_OFFSETS, 8, body)
        return int(answer["topics"][0]["partitions"][0]["offset"])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    settings = SETTINGS | jaas(USERS) | {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"}
    settings["audit.topic"] = "__audit"
    with broker(settings, data_dir=Path(tmp_path_factory.mktemp("secured"))) as running:
        found = Secured(running)
        create_topic(found.server, "orders")
        found.server.ask(PRODUCE, 9, produce_body(0, batch(3)))
        yield found


def _produced(answer: Any) -> ErrorCode:
    return ErrorCode(answer["responses"][0]["partition_responses"][0]["error_code"])


def test_cve_2018_1288_a_client_cannot_fetch_as_a_replica(secured: Secured) -> None:
    """A client that could name a replica id would read uncommitted records and advance the high watermark."""
    secured.allow("ann", Operation.READ, ResourceType.TOPIC, "orders")
    as_client = secured.ask("ann", FETCH, 12, fetch_body("orders"))
    assert as_client["responses"][0]["partitions"][0]["error_code"] == ErrorCode.none
    partition = secured.running.broker.parts.partitions.led("orders", 0)
    for version, replica in ((4, {"replica_id": 1}), (12, {"replica_id": 7})):
        answer = secured.ask("ann", FETCH, version, fetch_body("orders", **replica))
        row = answer["responses"][0]["partitions"][0]
        assert row["error_code"] == ErrorCode.topic_authorization_failed
        assert row["high_watermark"] == -1 and not row["records"]
    assert partition.isr is not None and not partition.isr.followers


def test_cve_2018_17196_write_on_the_topic_is_not_enough_for_a_transaction(secured: Secured) -> None:
    secured.allow("writer", Operation.WRITE, ResourceType.TOPIC, "orders")
    before = secured.end_offset("orders")
    for transactional_id in ("tx", None):
        body = produce_body(0, TRANSACTIONAL, transactional_id=transactional_id)
        assert _produced(secured.ask("writer", PRODUCE, 9, body)) is ErrorCode.transactional_id_authorization_failed
    assert secured.end_offset("orders") == before
    assert _produced(secured.ask("writer", PRODUCE, 9, produce_body(0, batch()))) is ErrorCode.none
    assert secured.end_offset("orders") == before + 1


def test_a_denied_produce_appends_nothing(secured: Secured) -> None:
    before = secured.end_offset("orders")
    for acks in (0, 1, -1):
        answer = secured.ask("bob", PRODUCE, 9, produce_body(0, batch(), acks=acks))
        assert answer == "closed" if acks == 0 else _produced(answer) is ErrorCode.topic_authorization_failed
    assert secured.end_offset("orders") == before


def test_a_hidden_topic_looks_like_one_that_does_not_exist(secured: Secured) -> None:
    topics = [{"name": name, "topic_id": None} for name in ("orders", "nothing-here")]
    body = {"topics": topics, "allow_auto_topic_creation": True, "include_topic_authorized_operations": True}
    rows = {row["name"]: row for row in secured.ask("bob", METADATA, 12, body)["topics"]}
    hidden, missing = rows["orders"], rows["nothing-here"]
    assert {**hidden, "name": ""} == {**missing, "name": ""}
    assert hidden["error_code"] == ErrorCode.topic_authorization_failed
    assert "nothing-here" not in secured.running.broker.parts.gateway.view.current.topics


def test_quotas_apply_to_the_authenticated_user(secured: Secured) -> None:
    for user in ("quick", "slow"):
        secured.allow(user, Operation.WRITE, ResourceType.TOPIC, "orders")
    entity = [{"entity_type": "user", "entity_name": "slow"}]
    limit = {"key": "producer_byte_rate", "value": 10.0, "remove": False}
    answer = secured.server.ask(
        ALTER_QUOTAS, 1, {"entries": [{"entity": entity, "ops": [limit]}], "validate_only": False}
    )
    assert not answer["entries"][0]["error_code"]
    throttled = {
        user: secured.ask(user, PRODUCE, 9, produce_body(0, batch(50)))["throttle_time"] for user in ("quick", "slow")
    }
    assert throttled["quick"] == 0 < throttled["slow"]


def test_share_acknowledge_is_denied_after_the_read_right_is_removed(secured: Secured) -> None:
    """A share session can outlive the right to read its topics, so the broker authorizes each request again."""
    server = secured.server
    create_topic(server, "queue")
    for name, resource_type in (("workers", ResourceType.GROUP), ("queue", ResourceType.TOPIC)):
        secured.allow("ann", Operation.READ, resource_type, name)
    member = "AAAAAAAAAAAAAAAAAAAAAQ"
    topic = {
        "topic_id": server.topic_id("queue"),
        "partitions": [{"partition_index": 0, "acknowledgement_batches": []}],
    }
    fetch = {
        "group_id": "workers",
        "member_id": member,
        "share_session_epoch": 0,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1000,
        "max_records": 10,
        "batch_size": 10,
        "topics": [topic],
        "forgotten_topics_data": [],
    }
    done = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    topic = {**topic, "partitions": [{"partition_index": 0, "acknowledgement_batches": [done]}]}
    acknowledge = {"group_id": "workers", "member_id": member, "share_session_epoch": 1, "topics": [topic]}
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
        server.log_in(client, "ann")
        assert server.ask_on(client, SHARE_FETCH, 1, fetch)["error_code"] == ErrorCode.none
        secured.forget("ann", ResourceType.TOPIC, "queue")
        answer = server.ask_on(client, SHARE_ACKNOWLEDGE, 1, acknowledge)
        assert answer["error_code"] == ErrorCode.none
        (row,) = answer["responses"][0]["partitions"]
        assert row["error_code"] == ErrorCode.topic_authorization_failed
        answer = server.ask_on(client, SHARE_FETCH, 1, {**fetch, "share_session_epoch": 2, "topics": []})
        (row,) = answer["responses"][0]["partitions"]
        assert row["error_code"] == ErrorCode.topic_authorization_failed


def test_denied_requests_are_written_to_the_audit_topic(secured: Secured) -> None:
    name = 'a"b\n\x1b[31m'
    body = {"key_type": 0, "coordinator_keys": [name]}
    assert secured.ask("bob", FIND_COORDINATOR, 4, body)["coordinators"][0]["error_code"] == GROUP_DENIED

    wait_for(lambda: "__audit" in secured.running.broker.parts.gateway.view.current.topics, "the audit topic")
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{secured.running.port}",
            "group.id": "auditors",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": PASSWORD,
        }
    )
    consumer.assign([TopicPartition("__audit", 0, OFFSET_BEGINNING)])

    def found() -> dict[str, Any] | None:
        message = consumer.poll(1)
        if message is None or message.error():
            return None
        denial: dict[str, Any] = json.loads(message.value() or b"")
        return denial if denial["resource_name"] == name else None

    denial = wait_for(found, "the record of the denied request")
    consumer.close()
    del denial["time_ms"]
    assert denial == {
        "broker": 1,
        "principal": "User:bob",
        "host": "127.0.0.1",
        "operation": "DESCRIBE",
        "resource_type": "GROUP",
        "resource_name": name,
        "request": "FindCoordinator",
        "allowed": False,
        "rule": "DefaultDeny",
    }
