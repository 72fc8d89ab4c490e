"""A cluster with SASL and ACLs: brokers forward requests of clients, and the controller authorizes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire import codec
from tests.differential.data_variants import batch, produce_body
from tests.differential.secured_servers import ADMIN, SETTINGS, SecuredServer, jaas
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster

PRODUCE, METADATA, CREATE_TOPICS, CREATE_ACLS = 0, 3, 19, 30
ENVELOPE, BROKER_HEARTBEAT, ALLOCATE_PRODUCER_IDS = 58, 63, 67
DENIED_TOPIC: Final = ErrorCode.topic_authorization_failed
DENIED_CLUSTER: Final = ErrorCode.cluster_authorization_failed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    settings = SETTINGS | jaas(["ann", "bob"]) | {"super.users": f"User:{ADMIN}"}
    settings["listener.security.protocol.map"] = "PLAINTEXT:SASL_PLAINTEXT"
    settings["zookeeper.set.acl"] = "false"
    with RunningCluster(tmp_path_factory.mktemp("authorization"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def servers(cluster: RunningCluster) -> list[SecuredServer]:
    found = [SecuredServer(f"broker {broker_id}", broker.port) for broker_id, broker in cluster.brokers.items()]
    wait_for(lambda: all(len(_metadata(one)["brokers"]) == len(found) for one in found), "all brokers to be known")
    return found


def _metadata(server: SecuredServer) -> Any:
    return server.ask_once(METADATA, 12, {"topics": None})


def _create(server: SecuredServer, user: str, name: str) -> ErrorCode:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 3, "assignments": [], "configs": []}
    body = {"topics": [topic], "timeout": 30_000, "validate_only": False}
    return ErrorCode(server.ask_as(user, CREATE_TOPICS, 7, body)["topics"][0]["error_code"])


def _allow(server: SecuredServer, user: str, operation: Operation, resource_type: ResourceType, name: str) -> None:
    acl = {
        "resource_type": int(resource_type),
        "resource_name": name,
        "resource_pattern_type": 4 if resource_type is ResourceType.TOPIC else 3,
        "principal": f"User:{user}",
        "host": "*",
        "operation": int(operation),
        "permission_type": 3,
    }
    assert not server.ask_once(CREATE_ACLS, 3, {"creations": [acl]})["results"][0]["error_code"]


def test_a_forwarded_request_has_the_rights_of_its_client(servers: list[SecuredServer]) -> None:
    for server in servers:  # the controller and the others
        _allow(server, "ann", Operation.CREATE, ResourceType.TOPIC, "ann-")
    for number, server in enumerate(servers):
        wait_for(lambda s=server, n=number: _create(s, "ann", f"ann-{n}") is ErrorCode.none, "ann to create a topic")
        assert _create(server, "ann", f"other-{number}") is DENIED_TOPIC
        assert _create(server, "bob", f"ann-of-bob-{number}") is DENIED_TOPIC
    names = {topic["name"] for topic in _metadata(servers[0])["topics"]}
    assert {name for name in names if not name.startswith("__")} == {f"ann-{n}" for n in range(len(servers))}


def test_clients_cannot_send_broker_requests(servers: list[SecuredServer]) -> None:
    """An Envelope that names another principal, and the other requests that only brokers may send."""
    topic = {"name": "forged", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    inner = codec.encode_request(
        CREATE_TOPICS, 7, 1, "x", {"topics": [topic], "timeout": 30_000, "validate_only": False}
    )
    envelope = {
        "request_data": bytes(inner[4:]),
        "request_principal": f"User:{ADMIN}".encode(),
        "client_host_address": b"127.0.0.1",
    }
    stop = {
        "broker_id": 1,
        "broker_epoch": 1,
        "current_metadata_offset": 0,
        "want_fence": False,
        "want_shut_down": True,
    }
    for server in servers:
        for user in ("ann", "bob"):
            answer = server.ask_as(user, ENVELOPE, 0, envelope)
            assert (answer["error_code"], answer["response_data"]) == (DENIED_CLUSTER, None)
            assert server.ask_as(user, BROKER_HEARTBEAT, 0, stop)["error_code"] == DENIED_CLUSTER
            body = {"broker_id": 1, "broker_epoch": 1}
            assert server.ask_as(user, ALLOCATE_PRODUCER_IDS, 0, body)["error_code"] == DENIED_CLUSTER
    assert "forged" not in {row["name"] for row in _metadata(servers[0])["topics"]}


def test_brokers_replicate_with_their_own_user(servers: list[SecuredServer]) -> None:
    assert _create(servers[0], ADMIN, "replicated") in (ErrorCode.none, ErrorCode.topic_already_exists)
    _allow(servers[0], "bob", Operation.WRITE, ResourceType.TOPIC, "replicated")
    codes: set[int] = set()

    def is_written() -> bool:
        for server in servers:
            answer = server.ask_as("bob", PRODUCE, 9, produce_body(0, batch(), topic="replicated", acks=-1))
            codes.add(answer["responses"][0]["partition_responses"][0]["error_code"])
        return ErrorCode.none in codes

    wait_for(is_written, lambda: f"a write that all replicas have; codes so far: {codes}")
    row = next(row for row in _metadata(servers[0])["topics"] if row["name"] == "replicated")
    assert len(row["partitions"][0]["isr_nodes"]) == 3
