"""Every endpoint of the HTTP API, walked with four kinds of callers: the API has no rights of its own.

The walk takes the endpoints from the table that the service itself uses, so a new endpoint fails here until this page
knows its request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from headrace.http.endpoint import Endpoint
from headrace.http.service import ENDPOINTS
from tests.support.http_api import RunningApi, basic, http_api
from tests.support.sasl import SaslBroker, sasl_broker

ROOT, NORA = basic("root", "of all"), basic("nora", "has none")
RECORD = {"value": {"type": "JSON", "data": 1}}
PARTITIONS = {"partitions": [{"topic": "guarded", "partition": 0}]}
OFFSETS = {"offsets": [{"topic": "guarded", "partition": 0, "offset": 0}]}
ACL = "?resource_type=TOPIC&resource_name=none&pattern_type=LITERAL&operation=READ&permission=ALLOW"
NEW_ACL = {
    "resource_type": "TOPIC", "resource_name": "x", "principal": "User:x", "operation": "READ", "permission": "ALLOW",
}  # fmt: skip
# The body of a request by the name of its handler.
BODIES: dict[str, Any] = {
    "create_topic": {"topic_name": "created", "partitions_count": 1},
    "update_partitions": {"partitions_count": 3},
    "alter_configs": {"data": [{"name": "retention.ms", "value": "1000"}]},
    "update_config": {"value": "2000"},
    "create_acl": NEW_ACL,
    "produce_records": RECORD,
    "produce_batch": {"entries": [RECORD]},
    "produce": {"records": [{"value": "eA=="}]},
    "create_instance": {"name": "walked", "format": "binary", "auto.offset.reset": "earliest"},
    "subscribe": {"topics": ["guarded"]},
    "assign": PARTITIONS,
    "seek": OFFSETS,
    "seek_to_beginning": PARTITIONS,
    "seek_to_end": PARTITIONS,
}
QUERIES = {"search_acls": "", "remove_acls": ACL, "read": "?timeout=3000"}
# What a caller without rights may see: names of the cluster, and lists without what is hidden.
OPEN_TO_ALL = {
    "list_clusters", "get_cluster", "list_brokers", "get_broker", "list_topics", "list_groups", "create_instance",
}  # fmt: skip
# nora's own instance: the brokers refuse what concerns the cluster. The rest changes the instance alone; 409 says that
# the instance has no partitions.
OF_OWN_INSTANCE = {
    "subscribe": 403, "show_subscription": 200, "show_assignments": 200, "read": 409, "commit": 200,
    "show_offsets": 403, "seek": 409, "seek_to_beginning": 409, "seek_to_end": 409, "unsubscribe": 204, "assign": 204,
    "delete_instance": 204,
}  # fmt: skip
LAST = ("unsubscribe", "assign", "delete_instance", "delete_topic")


def handler(endpoint: Endpoint) -> str:
    return endpoint.handler.__name__


def is_of_instance(endpoint: Endpoint) -> bool:
    return "{instance}" in endpoint.path


@pytest.fixture(scope="module")
def served() -> Iterator[SaslBroker]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
    }
    with sasl_broker(settings) as started:
        started.set_password("root", "of all", "SCRAM-SHA-512")
        started.set_password("nora", "has none", "SCRAM-SHA-512")
        started.admin.create_topics([NewTopic("guarded", 2, 1)])["guarded"].result()
        producer = Producer({"bootstrap.servers": started.local})
        producer.produce("guarded", b"1", partition=0)
        producer.flush()
        yield started


@pytest.fixture(scope="module")
def api(served: SaslBroker) -> Iterator[RunningApi]:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    with http_api(served.bootstrap, settings=settings) as started:
        yield started


@pytest.fixture(scope="module")
def names(api: RunningApi) -> dict[str, str]:
    """What stands for the parameters of a path. The group exists, and has a committed offset."""
    cluster = api.ask("GET", "/v3/clusters", Authorization=ROOT)[1]["data"][0]["cluster_id"]
    broker = api.ask("GET", "/brokers", Authorization=ROOT)[1]["brokers"][0]
    found = {
        "cluster_id": cluster, "broker_id": str(broker), "topic_name": "guarded", "partition_id": "0",
        "name": "retention.ms", "consumer_group_id": "team", "group_name": "walk", "instance": "walked",
    }  # fmt: skip
    made = api.ask("POST", "/consumers/team", {"name": "m", "auto.offset.reset": "earliest"}, Authorization=ROOT)
    base = str(made[1]["base_uri"]).removeprefix(api.url)
    assert api.ask("POST", f"{base}/subscription", {"topics": ["guarded"]}, Authorization=ROOT)[0] == 204
    assert api.ask("GET", f"{base}/records?timeout=10000", Authorization=ROOT)[0] == 200
    assert api.ask("POST", f"{base}/offsets", Authorization=ROOT)[0] == 200
    members = api.ask("GET", f"/v3/clusters/{cluster}/consumer-groups/team/consumers", Authorization=ROOT)[1]["data"]
    return {**found, "consumer_id": members[0]["consumer_id"]}


def call(api: RunningApi, endpoint: Endpoint, names: dict[str, str], **headers: str) -> tuple[int, Any]:
    path = endpoint.path.format(**names) + QUERIES.get(handler(endpoint), "")
    if "broker" in endpoint.path and handler(endpoint) in (
        "alter_configs",
        "update_config",
        "reset_config",
        "get_config",
    ):
        path = path.replace("retention.ms", "log.cleaner.threads")
    body = BODIES.get(handler(endpoint))
    if "broker" in endpoint.path and handler(endpoint) in ("alter_configs", "update_config"):
        body = {"data": [{"name": "log.cleaner.threads", "value": "1"}], "value": "1"}
    assert (body is None) == (endpoint.body is None or not endpoint.is_body_required), "the walk lacks a body"
    if body is not None:
        headers.setdefault("Content_Type", endpoint.body_types[0])
    return api.ask(endpoint.method, path, body, **headers)


ORDERED = sorted(ENDPOINTS, key=lambda one: LAST.index(handler(one)) if handler(one) in LAST else -1)
ROWS = [pytest.param(one, id=f"{one.method} {one.path}") for one in ORDERED]


@pytest.mark.parametrize("endpoint", ROWS)
def test_a_caller_without_login_or_with_a_wrong_password_gets_401(
    api: RunningApi, names: dict[str, str], endpoint: Endpoint
) -> None:
    for headers in ({}, {"Authorization": basic("root", "wrong")}):
        status, answer = call(api, endpoint, names, **headers)
        assert (status, answer["error_code"]) == (401, 40101)


@pytest.mark.parametrize("endpoint", ROWS)
def test_a_caller_without_rights_sees_and_changes_nothing(
    api: RunningApi, names: dict[str, str], endpoint: Endpoint
) -> None:
    status, answer = call(api, endpoint, names, Authorization=NORA)
    if handler(endpoint) in OPEN_TO_ALL:
        assert status == 200, answer
        assert "guarded" not in str(answer) and "team" not in str(answer)
    elif is_of_instance(endpoint):
        assert status == OF_OWN_INSTANCE[handler(endpoint)], answer
    else:
        assert (status, answer["error_code"]) == (403, 40301)


def test_nothing_has_changed_and_instances_are_hidden(api: RunningApi, names: dict[str, str]) -> None:
    """After the walk without rights."""
    topic = f"/v3/clusters/{names['cluster_id']}/topics/guarded"
    assert api.ask("GET", topic, Authorization=ROOT)[1]["partitions_count"] == 2
    assert api.ask("GET", f"{topic}/configs/retention.ms", Authorization=ROOT)[1]["is_default"] is True
    assert api.ask("GET", "/topics/guarded/partitions/0/offsets", Authorization=ROOT)[1]["end_offset"] == 1
    assert api.ask("GET", f"/v3/clusters/{names['cluster_id']}/acls", Authorization=ROOT)[1]["data"] == []
    assert "created" not in api.ask("GET", "/topics", Authorization=ROOT)[1]
    assert api.ask("GET", "/consumers/team/instances/m/records", Authorization=NORA)[1]["error_code"] == 40403


def test_partitions_that_a_caller_without_rights_assigns_are_not_read_or_committed(api: RunningApi) -> None:
    base = "/consumers/hers/instances/hers"
    assert api.ask("POST", "/consumers/hers", {"name": "hers"}, Authorization=NORA)[0] == 200
    assert api.ask("POST", f"{base}/assignments", PARTITIONS, Authorization=NORA)[0] == 204
    assert api.ask("GET", f"{base}/records", Authorization=NORA)[1]["error_code"] == 40301
    assert api.ask("POST", f"{base}/positions", OFFSETS, Authorization=NORA)[0] == 204
    assert api.ask("GET", f"{base}/records", Authorization=NORA)[1]["error_code"] == 40301
    assert api.ask("POST", f"{base}/offsets", OFFSETS, Authorization=NORA)[1]["error_code"] == 40301
    assert api.ask("GET", base + "/subscription", Authorization=ROOT)[1]["error_code"] == 40403, "root is not the owner"


def test_a_caller_with_the_rights_succeeds_everywhere(api: RunningApi, names: dict[str, str]) -> None:
    for endpoint in ORDERED:
        status, answer = call(api, endpoint, names, Authorization=ROOT)
        assert status == endpoint.status, (endpoint.path, handler(endpoint), status, answer)
