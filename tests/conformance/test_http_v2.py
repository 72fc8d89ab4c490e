"""The v2 API against a broker and a registry: produce in every format, consumer instances from creation to expiry."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import RunningBroker, broker
from tests.support.clock import wait_for
from tests.support.http_api import RunningApi, http_api
from tests.support.registry import RunningRegistry, registry

V2 = "application/vnd.kafka.v2+json"
NUMBERS = itertools.count()
AVRO = '{"type":"record","name":"Order","fields":[{"name":"n","type":"int"}]}'
JSON_SCHEMA = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
PROTOBUF = 'syntax = "proto3"; message Order { int32 n = 1; }'


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker(
        {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}
    ) as started:
        yield started


@pytest.fixture(scope="module")
def schemas(running: RunningBroker) -> Iterator[RunningRegistry]:
    with registry(running.bootstrap) as started:
        yield started


@pytest.fixture(scope="module")
def api(running: RunningBroker, schemas: RunningRegistry) -> Iterator[RunningApi]:
    with http_api(running.bootstrap, registry=schemas.url) as started:
        yield started


@pytest.fixture
def topic(running: RunningBroker) -> str:
    name = f"t{next(NUMBERS)}"
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    return name


def embedded(name: str) -> str:
    return f"application/vnd.kafka.{name}.v2+json"


def produce(api: RunningApi, path: str, how: str, *records: Any, **more: Any) -> Any:
    status, answer = api.ask("POST", path, {"records": list(records), **more}, Content_Type=embedded(how))
    assert status == 200, answer
    return answer


def instance(api: RunningApi, group: str, **settings: Any) -> str:
    body = {"auto.offset.reset": "earliest", "format": "json", **settings}
    status, answer = api.ask("POST", f"/consumers/{group}", body, Content_Type=V2)
    assert status == 200, answer
    return str(answer["base_uri"]).removeprefix(api.url)


def read(api: RunningApi, base: str, count: int) -> list[Any]:
    found: list[Any] = []

    def are_all_there() -> bool:
        status, answer = api.ask("GET", f"{base}/records?timeout=500")
        assert status == 200, answer
        found.extend(answer)
        return len(found) >= count

    wait_for(are_all_there, "the records")
    return found


def test_topics_partitions_and_brokers(api: RunningApi, topic: str) -> None:
    assert topic in api.ask("GET", "/topics")[1]
    assert len(api.ask("GET", "/brokers")[1]["brokers"]) == 1
    described = api.ask("GET", f"/topics/{topic}")[1]
    assert described["name"] == topic and described["configs"]["cleanup.policy"] == "delete"
    assert api.ask("GET", f"/topics/{topic}/partitions")[1] == described["partitions"]
    assert api.ask("GET", f"/topics/{topic}/partitions/1")[1]["replicas"][0]["in_sync"] is True
    produce(api, f"/topics/{topic}/partitions/1", "json", {"value": 1})
    offsets = {"beginning_offset": 0, "end_offset": 1}
    assert api.ask("GET", f"/topics/{topic}/partitions/1/offsets")[1] == offsets
    assert api.ask("GET", f"/topics/{topic}/partitions/9")[1]["error_code"] == 40402
    for path in ("/topics/none", "/topics/none/partitions", "/topics/none/partitions/0/records?offset=0"):
        assert api.ask("GET", path)[1]["error_code"] == 40401


def test_the_partition_is_read_without_a_consumer(api: RunningApi, topic: str) -> None:
    path = f"/topics/{topic}/partitions/0"
    produce(api, path, "json", *({"key": "k", "value": {"n": n}} for n in range(3)))
    status, found = api.ask("GET", f"{path}/records?offset=1", Accept=embedded("json"))
    assert status == 200
    assert found == [{"topic": topic, "key": "k", "value": {"n": n}, "partition": 0, "offset": n} for n in (1, 2)]
    assert api.ask("GET", f"{path}/records?offset=2")[1][0]["key"] == base64.b64encode(b'"k"').decode()
    status, refused = api.ask("GET", f"{path}/records?offset=99")
    assert status == 400
    assert refused["message"].startswith("offset 99 is not in the log of ")
    assert api.ask("GET", f"/topics/{topic}/partitions/9/records")[1]["error_code"] == 40402


@pytest.mark.parametrize(("how", "schema"), [("avro", AVRO), ("jsonschema", JSON_SCHEMA), ("protobuf", PROTOBUF)])
def test_values_of_a_schema(api: RunningApi, topic: str, how: str, schema: str) -> None:
    first = produce(api, f"/topics/{topic}", how, {"value": {"n": 1}, "partition": 0}, value_schema=schema)
    again = {"value": {"n": 2}, "partition": 0}
    assert produce(api, f"/topics/{topic}", how, again, value_schema_id=first["value_schema_id"])["offsets"][0] == {
        "partition": 0, "offset": 1, "error_code": None, "error": None,
    }  # fmt: skip
    found = api.ask("GET", f"/topics/{topic}/partitions/0/records", Accept=embedded(how))[1]
    assert [one["value"]["n"] for one in found] == [1, 2]
    base = instance(api, f"group-{how}", format=how)
    assert api.ask("POST", f"{base}/subscription", {"topics": [topic]}, Content_Type=V2) == (204, None)
    assert [one["value"] for one in read(api, base, 2)] == [{"n": 1}, {"n": 2}]
    for body, code in (
        ({"records": [{"value": {"n": "x"}}], "value_schema": schema}, 42203),
        ({"records": [{"value": {"n": 1}}]}, 42202),
        ({"records": [{"value": {"n": 1}}], "value_schema": "{"}, 42205),
        ({"records": [{"value": {"n": 1}}], "value_schema_id": 9999}, 42205),
    ):
        assert api.ask("POST", f"/topics/{topic}", body, Content_Type=embedded(how))[1]["error_code"] == code


def test_values_that_break_the_data_contract_are_refused(api: RunningApi, schemas: RunningRegistry, topic: str) -> None:
    rule = {"name": "positive", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "message.n > 0"}
    hidden = {"name": "hide", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITE"}
    for subject, each in ((f"{topic}-value", rule), (f"{topic}-hidden", hidden)):
        contract = {"schema": AVRO, "ruleSet": {"domainRules": [each]}}
        assert schemas.ask("POST", f"/subjects/{subject}/versions", contract)[0] == 200
    id_ = schemas.ask("GET", f"/subjects/{topic}-value/versions/1")[1]["id"]
    assert (
        produce(api, f"/topics/{topic}", "avro", {"value": {"n": 1}}, value_schema_id=id_)["offsets"][0]["offset"] == 0
    )
    body = {"records": [{"value": {"n": 0}}], "value_schema_id": id_}
    status, refused = api.ask("POST", f"/topics/{topic}", body, Content_Type=embedded("avro"))
    assert (status, refused["error_code"]) == (422, 42203)
    assert "rule 'positive' does not hold: message.n > 0" in refused["message"]
    id_ = schemas.ask("GET", f"/subjects/{topic}-hidden/versions/1")[1]["id"]
    body = {"records": [{"value": {"n": 1}}], "value_schema_id": id_}
    status, refused = api.ask("POST", f"/topics/{topic}", body, Content_Type=embedded("avro"))
    assert (status, refused["error_code"]) == (422, 42205)
    assert "which this writer does not run" in refused["message"]


def test_the_life_of_an_instance(api: RunningApi, topic: str) -> None:
    produce(api, f"/topics/{topic}", "json", *({"value": n, "partition": n % 2} for n in range(6)))
    base = instance(api, "life", name="one")
    taken = api.ask("POST", "/consumers/life", {"name": "one"}, Content_Type=V2)
    assert (taken[0], taken[1]["error_code"]) == (409, 40902)
    assert api.ask("GET", f"{base}/records")[1]["error_code"] == 40903
    assert api.ask("POST", f"{base}/subscription", {"topics": [topic]}, Content_Type=V2)[0] == 204
    assert api.ask("GET", f"{base}/subscription")[1] == {"topics": [topic]}
    assert sorted(one["value"] for one in read(api, base, 6)) == list(range(6))
    assert len(api.ask("GET", f"{base}/assignments")[1]["partitions"]) == 2
    both = {"partitions": [{"topic": topic, "partition": 0}]}
    assert api.ask("POST", f"{base}/assignments", both, Content_Type=V2)[1]["error_code"] == 40903
    assert api.ask("GET", f"{base}/records", Accept=embedded("binary"))[1]["error_code"] == 40601
    assert api.ask("POST", f"{base}/offsets")[0] == 200
    assert [one["offset"] for one in api.ask("GET", f"{base}/offsets")[1]["offsets"]] == [3, 3]
    assert api.ask("POST", f"{base}/positions/beginning", both, Content_Type=V2)[0] == 204
    assert [one["value"] for one in read(api, base, 3)] == [0, 2, 4]
    seek = {"offsets": [{"topic": topic, "partition": 1, "offset": 2}]}
    assert api.ask("POST", f"{base}/positions", seek, Content_Type=V2)[0] == 204
    assert [one["value"] for one in read(api, base, 1)] == [5]
    assert api.ask("POST", f"{base}/positions/end", both, Content_Type=V2)[0] == 204
    stray = {"offsets": [{"topic": topic, "partition": 7, "offset": 0}]}
    assert api.ask("POST", f"{base}/positions", stray, Content_Type=V2)[1]["error_code"] == 40903
    one_offset = {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    assert api.ask("POST", f"{base}/offsets", one_offset, Content_Type=V2)[0] == 200
    assert api.ask("DELETE", base) == (204, None)
    assert api.ask("GET", f"{base}/records")[1]["error_code"] == 40403
    again = instance(api, "life")
    api.ask("POST", f"{again}/subscription", {"topics": [topic]}, Content_Type=V2)
    assert [one["value"] for one in read(api, again, 2)] == [2, 4], "goes on after the committed offsets"
    assert api.ask("DELETE", f"{again}/subscription") == (204, None)
    assert api.ask("DELETE", again) == (204, None)


def test_two_instances_of_a_group_share_the_partitions(api: RunningApi, topic: str) -> None:
    first, second = instance(api, "shared"), instance(api, "shared")
    for base in (first, second):
        assert api.ask("POST", f"{base}/subscription", {"topic_pattern": f"{topic}.*"}, Content_Type=V2)[0] == 204

    def assigned(base: str) -> int:
        return len(api.ask("GET", f"{base}/assignments")[1]["partitions"])

    wait_for(lambda: (assigned(first), assigned(second)) == (1, 1), "one partition each")
    assert api.ask("DELETE", first)[0] == 204
    wait_for(lambda: assigned(second) == 2, "both partitions")
    assert api.ask("DELETE", second)[0] == 204


def test_partitions_are_assigned_by_hand_and_committed(api: RunningApi, topic: str) -> None:
    produce(api, f"/topics/{topic}/partitions/0", "binary", {"value": base64.b64encode(b"x").decode()})
    base = instance(api, "by-hand", format="binary", **{"auto.commit.enable": "true"})
    wanted = {"partitions": [{"topic": topic, "partition": 0}]}
    assert api.ask("POST", f"{base}/assignments", wanted, Content_Type=V2)[0] == 204
    assert [one["value"] for one in read(api, base, 1)] == ["eA=="]
    assert api.ask("GET", f"{base}/offsets")[1]["offsets"][0]["offset"] == 1
    assert api.ask("DELETE", base)[0] == 204


def test_idle_instances_end_and_leave_their_group(running: RunningBroker) -> None:
    with http_api(running.bootstrap, instance_idle_s=0.2) as api:
        base = instance(api, "idle")
        wait_for(lambda: api.ask("POST", "/consumers/idle", {"name": base.rpartition("/")[2]})[0] == 200, "a free name")


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        ({"records": []}, embedded("json"), 422, 422),
        ({}, embedded("json"), 422, 422),
        ({"records": [1]}, embedded("json"), 422, 422),
        ({"records": [{"value": "%"}]}, embedded("binary"), 400, 400),
        ({"records": [{"value": 1}]}, embedded("xml"), 415, 415),
        ({"records": [{"value": 1}]}, "text/plain", 415, 415),
        (b"{", embedded("json"), 400, 400),
        ({"records": [{"value": 1, "partition": -1}]}, embedded("json"), 400, 400),
    ],
)
def test_mistakes(api: RunningApi, topic: str, body: Any, content_type: str, status: int, code: int) -> None:
    answer = api.ask("POST", f"/topics/{topic}", body, Content_Type=content_type)
    assert (answer[0], answer[1]["error_code"]) == (status, code), answer
    records = api.ask("GET", f"/topics/{topic}/partitions/0/records")[1]
    assert records == [] == api.ask("GET", f"/topics/{topic}/partitions/1/records")[1]


def test_mistakes_of_an_instance(api: RunningApi) -> None:
    for wrong in ({"format": "xml"}, {"auto.offset.reset": "soon"}, {"consumer.request.timeout.ms": "x"}):
        assert api.ask("POST", "/consumers/wrong", wrong)[1]["error_code"] == 42204
    base = instance(api, "wrong")
    for body in ({}, {"topics": ["a"], "topic_pattern": "b"}, {"topics": [1]}):
        assert api.ask("POST", f"{base}/subscription", body)[0] == 422
    assert api.ask("POST", f"{base}/positions", {"offsets": [{"topic": "t", "partition": 0}]})[0] == 422
    assert api.ask("DELETE", base)[0] == 204
