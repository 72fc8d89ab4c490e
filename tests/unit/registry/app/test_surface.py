"""Every route of the registry with every parameter, as one table; then tags, rule types, aliases, field checks."""

# A row of the table is a line.
# ruff: noqa: E501
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.registry import RunningRegistry

RULES = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}


def order(*fields: dict[str, Any], **props: Any) -> str:
    return json.dumps(
        {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields), **props}, separators=(",", ":")
    )


ID_FIELD = {"name": "id", "type": "long"}
NOTE_FIELD = {"name": "note", "type": "string", "default": "", "confluent:tags": ["PII"]}
PROTO = 'syntax = "proto3";\nmessage M { string name = 1; message N { int32 n = 1; } oneof o { int32 a = 2; } }'
JSON_SCHEMA = json.dumps(
    {"type": "object", "properties": {"a": {"type": "string"}, "list": {"type": "array", "items": {"type": "object"}}}}
)


@pytest.fixture(scope="module")
def filled(server: RunningRegistry) -> RunningRegistry:
    """`t`: two versions and a deleted third, the second with rules, metadata and a tag; `t-alias` stands for it."""

    def register(subject: str, **body: Any) -> None:
        status, answer = server.ask("POST", f"/subjects/{subject}/versions", body)
        assert status == 200, answer

    register("t", schema=order(ID_FIELD))
    register("t", schema=order(ID_FIELD, NOTE_FIELD), ruleSet=RULES, metadata={"properties": {"owner": "me"}})
    register("t", schema=order(ID_FIELD, NOTE_FIELD, {"name": "x", "type": "int", "default": 1}))
    assert server.ask("DELETE", "/subjects/t/versions/3")[0] == 200
    register("t-user", schema='{"type":"record","name":"U","fields":[{"name":"o","type":"shop.Order"}]}',
             references=[{"name": "shop.Order", "subject": "t", "version": 2}])  # fmt: skip
    register("t-proto", schema=PROTO, schemaType="PROTOBUF")
    register(":.t:inside", schema='"int"')
    assert server.ask("PUT", "/config/t-alias", {"alias": "t"})[0] == 200
    return server


def ids(server: RunningRegistry) -> dict[str, Any]:
    found = {f"id{n}": server.ask("GET", f"/subjects/t/versions/{n}")[1] for n in (1, 2)}
    return {
        "id1": found["id1"]["id"],
        "id2": found["id2"]["id"],
        "guid": found["id2"]["guid"],
        "proto": server.ask("GET", "/subjects/t-proto/versions/1")[1]["id"],
    }


Check = Callable[[Any], bool]
# Method, path, query, body, and what must hold for the answer (status 200).
SURFACE: list[tuple[str, str, str, Any, Check]] = [
    ("GET", "/", "", None, lambda a: a == {}),
    ("POST", "/", "", {}, lambda a: a == {}),
    ("GET", "/schemas/types", "", None, lambda a: a == ["JSON", "PROTOBUF", "AVRO"]),
    ("GET", "/schemas", "subjectPrefix=t", None, lambda a: [(v["subject"], v["version"]) for v in a][:2] == [("t", 1), ("t", 2)]),
    ("GET", "/schemas", "subjectPrefix=t-alias", None, lambda a: a == []),
    ("GET", "/schemas", "subjectPrefix=t-alias&aliases=true", None, lambda a: [(v["version"], v["aliases"]) for v in a] == [(1, ["t-alias"]), (2, ["t-alias"])]),
    ("GET", "/schemas", "subjectPrefix=t&deleted=true", None, lambda a: [v["version"] for v in a if v["subject"] == "t"] == [1, 2, 3]),
    ("GET", "/schemas", "subjectPrefix=t&latestOnly=true", None, lambda a: [v["version"] for v in a if v["subject"] == "t"] == [2]),
    ("GET", "/schemas", "subjectPrefix=t&ruleType=CEL", None, lambda a: [(v["subject"], v["version"]) for v in a] == [("t", 2)]),
    ("GET", "/schemas", "subjectPrefix=t&ruleType=JSONATA", None, lambda a: a == []),
    ("GET", "/schemas", "subjectPrefix=t&offset=1&limit=1", None, lambda a: [v["version"] for v in a] == [2]),
    ("GET", "/schemas/ids/{id1}", "", None, lambda a: set(a) == {"schema", "guid"}),
    ("GET", "/schemas/ids/{id2}", "", None, lambda a: a["ruleSet"] == RULES and a["metadata"] and "schemaTags" not in a),
    ("GET", "/schemas/ids/{id2}", "findTags=true", None, lambda a: a["schemaTags"] == [{"schemaEntity": {"entityPath": "shop.Order.note", "entityType": "sr_field"}, "tags": ["PII"]}]),
    ("GET", "/schemas/ids/{id1}", "findTags=true", None, lambda a: "schemaTags" not in a),
    ("GET", "/schemas/ids/{id1}", "fetchMaxId=true", None, lambda a: a["maxId"] >= 4),
    ("GET", "/schemas/ids/{id1}", "subject=t", None, lambda a: "schema" in a),
    ("GET", "/schemas/ids/{proto}", "format=serialized", None, lambda a: a["schemaType"] == "PROTOBUF" and "{" not in a["schema"]),
    ("GET", "/schemas/ids/{proto}", "format=ignore_extensions", None, lambda a: "message M" in a["schema"]),
    ("GET", "/schemas/ids/{id1}/schema", "", None, lambda a: a["name"] == "Order"),
    ("GET", "/schemas/ids/{id1}/schema", "subject=t&format=resolved", None, lambda a: a["name"] == "Order"),
    ("GET", "/schemas/ids/{id1}/subjects", "deleted=true&offset=0&limit=1", None, lambda a: a == ["t"]),
    ("GET", "/schemas/ids/{id1}/versions", "deleted=true&offset=0&limit=1", None, lambda a: a == [{"subject": "t", "version": 1}]),
    ("GET", "/schemas/guids/{guid}", "format=resolved", None, lambda a: a["ruleSet"] == RULES),
    ("GET", "/schemas/guids/{guid}/ids", "", None, lambda a: [each["context"] for each in a] == ["."]),
    ("GET", "/subjects", "", None, lambda a: ":.t:inside" in a and "t" in a),
    ("GET", "/subjects", "subjectPrefix=t-", None, lambda a: a == ["t-proto", "t-user"]),
    ("GET", "/subjects", "subjectPrefix=:.t:", None, lambda a: a == [":.t:inside"]),
    ("GET", "/subjects", "deleted=true&offset=0&limit=1", None, lambda a: len(a) == 1),
    ("GET", "/subjects", "subjectPrefix=t&deletedOnly=true", None, lambda a: a == []),
    ("POST", "/subjects/t", "", {"schema": order(ID_FIELD)}, lambda a: a["version"] == 1),
    ("POST", "/subjects/t", "normalize=true&format=resolved", {"schema": order(ID_FIELD)}, lambda a: a["version"] == 1),
    ("POST", "/subjects/t", "deleted=true", {"schema": order(ID_FIELD, NOTE_FIELD, {"name": "x", "type": "int", "default": 1})}, lambda a: a["version"] == 3),
    ("POST", "/subjects/t-alias", "", {"schema": order(ID_FIELD)}, lambda a: a["subject"] == "t"),
    ("GET", "/subjects/t/versions", "", None, lambda a: a == [1, 2]),
    ("GET", "/subjects/t/versions", "deleted=true&offset=1&limit=2", None, lambda a: a == [2, 3]),
    ("GET", "/subjects/t/versions", "deletedOnly=true", None, lambda a: a == [3]),
    ("GET", "/subjects/t/versions", "deletedAsNegative=true", None, lambda a: a == [1, 2, -3]),
    ("POST", "/subjects/t/versions", "normalize=true&format=resolved", {"schema": order(ID_FIELD)}, lambda a: a["version"] == 1 and a["guid"] and a["schema"]),
    ("POST", "/subjects/t-forced/versions", "force=true", {"schema": '"string"'}, lambda a: a["id"] > 0),
    ("POST", "/subjects/t-forced/versions", "force=true", {"schema": '"int"'}, lambda a: a["version"] == 2),
    ("GET", "/subjects/t/versions/2", "findTags=true", None, lambda a: a["schemaTags"][0]["tags"] == ["PII"]),
    ("GET", "/subjects/t/versions/latest", "", None, lambda a: (a["version"], a["schemaType"]) == (2, "AVRO")),
    ("GET", "/subjects/t/versions/-1", "", None, lambda a: a["version"] == 2),
    ("GET", "/subjects/t/versions/3", "deleted=true", None, lambda a: a["version"] == 3),
    ("GET", "/subjects/t-user/versions/1", "format=resolved", None, lambda a: '"shop"' in a["schema"]),
    ("GET", "/subjects/t-user/versions/1", "referenceFormat=qualified", None, lambda a: a["references"][0]["subject"] == "t"),
    ("GET", "/subjects/t/versions/1/schema", "format=resolved", None, lambda a: a["name"] == "Order"),
    ("GET", "/subjects/t/versions/2/referencedby", "", None, lambda a: len(a) == 1),
    ("GET", "/subjects/t/metadata", "key=owner&value=me", None, lambda a: a["version"] == 2),
    ("POST", "/compatibility/subjects/t/versions", "", {"schema": '"int"'}, lambda a: a == {"is_compatible": False}),
    ("POST", "/compatibility/subjects/t/versions/1", "normalize=true&verbose=true", {"schema": '"int"'}, lambda a: len(a["messages"]) > 0),
    ("GET", "/config", "", None, lambda a: a == {"compatibilityLevel": "BACKWARD"}),
    ("GET", "/config/t", "defaultToGlobal=true", None, lambda a: a == {"compatibilityLevel": "BACKWARD"}),
    ("PUT", "/config/t-user", "", {"compatibility": "FULL", "normalize": True, "validateFields": True, "compatibilityPolicy": "LENIENT", "compatibilityGroup": "major"}, lambda a: (a["compatibility"], a["validateFields"]) == ("FULL", True)),
    ("GET", "/config/t-user", "", None, lambda a: (a["compatibilityLevel"], a["compatibilityGroup"]) == ("FULL", "major")),
    ("DELETE", "/config/t-user", "", None, lambda a: a["compatibilityLevel"] == "FULL"),
    ("GET", "/mode", "", None, lambda a: a == {"mode": "READWRITE"}),
    ("GET", "/mode/t", "defaultToGlobal=true", None, lambda a: a == {"mode": "READWRITE"}),
    ("PUT", "/mode/t-user", "force=true", {"mode": "READONLY"}, lambda a: a == {"mode": "READONLY"}),
    ("DELETE", "/mode/t-user", "recursive=true", None, lambda a: a == {"mode": "READONLY"}),
    ("GET", "/contexts", "contextPrefix=.t", None, lambda a: a == [".t"]),
    ("GET", "/contexts/.t/subjects", "", None, lambda a: a == [":.t:inside"]),
    ("GET", "/contexts/.t/schemas/ids/1", "", None, lambda a: a["schema"] == '"int"'),
    ("GET", "/v1/metadata/id", "", None, lambda a: "kafka-cluster" in a["scope"]["clusters"]),
    ("GET", "/v1/metadata/version", "", None, lambda a: bool(a["version"])),
    ("GET", "/v1/metadata/deployment", "", None, lambda a: bool(a["attributes"])),
    ("DELETE", "/subjects/t-forced/versions/2", "", None, lambda a: a == 2),
    ("DELETE", "/subjects/t-forced/versions/2", "permanent=true", None, lambda a: a == 2),
    ("DELETE", "/subjects/t-forced", "", None, lambda a: a == [1]),
    ("DELETE", "/subjects/t-forced", "permanent=true", None, lambda a: a == [1]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "check"), SURFACE, ids=[f"{m} {p}?{q}" for m, p, q, _, _ in SURFACE]
)
def test_route_answers_with_its_parameters(
    filled: RunningRegistry, method: str, path: str, query: str, body: Any, check: Check
) -> None:
    status, answer = filled.ask(method, f"{path.format(**ids(filled))}?{query}", body)
    assert status == 200, answer
    assert check(answer), answer


def entity(path: str, kind: str, *tags: str) -> dict[str, Any]:
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(tags)}


@pytest.mark.parametrize(
    ("kind", "schema", "record", "field", "nested"),
    [
        ("AVRO", order(ID_FIELD), "shop.Order", "shop.Order.id", None),
        ("JSON", JSON_SCHEMA, "object", "object.a", ("object.list.array.object", "sr_record")),
        ("PROTOBUF", PROTO, "M", "M.a", ("M.N.n", "sr_field")),
    ],
)
def test_tags_are_added_and_removed_in_the_text_of_a_new_version(
    server: RunningRegistry, subject: str, kind: str, schema: str, record: str, field: str, nested: Any
) -> None:
    path = f"/subjects/{subject}/versions"
    assert server.ask("POST", path, {"schema": schema, "schemaType": kind})[0] == 200
    added = [entity(record, "sr_record", "A"), entity(field, "sr_field", "PII", "B")]
    added += [entity(*nested, "C")] if nested else []
    status, made = server.ask("POST", f"{path}/1/tags", {"newVersion": 2, "tagsToAdd": added})
    assert (status, made.get("version")) == (200, 2), made
    assert made["metadata"]["properties"] == {"confluent:version": "2"}
    tags = server.ask("GET", f"{path}/2?findTags=true")[1]["schemaTags"]
    assert sorted(map(str, tags)) == sorted(map(str, added))
    removed = [entity(field, "sr_field", "PII"), entity(record, "sr_record", "A")]
    status, again = server.ask("POST", f"{path}/latest/tags", {"tagsToRemove": removed})
    assert (status, again.get("version")) == (200, 3), again
    tags = server.ask("GET", f"{path}/3?findTags=true")[1]["schemaTags"]
    assert entity(field, "sr_field", "B") in tags
    assert all(each["schemaEntity"]["entityPath"] != record for each in tags)
    missing = {"tagsToAdd": [entity("nowhere", "sr_field", "A")]}
    assert server.ask("POST", f"{path}/1/tags", missing)[1]["error_code"] == 42201
    assert server.ask("POST", f"{path}/9/tags", {"tagsToAdd": added})[1]["error_code"] == 40402
    assert server.ask("POST", f"{path}/1/tags", {"tagsToAdd": [{"tags": []}]})[0] == 400


def test_registration_adds_removes_and_keeps_tags(server: RunningRegistry, subject: str) -> None:
    path = f"/subjects/{subject}/versions"
    tag = entity("shop.Order.id", "sr_field", "KEY")
    server.ask("POST", path, {"schema": order(ID_FIELD), "schemaTagsToAdd": [tag]})
    assert server.ask("GET", f"{path}/1?findTags=true")[1]["schemaTags"] == [tag]
    server.ask("POST", path, {"schema": order(ID_FIELD, NOTE_FIELD), "propagateSchemaTags": True})
    found = server.ask("GET", f"{path}/2?findTags=true")[1]["schemaTags"]
    assert found == [tag, entity("shop.Order.note", "sr_field", "PII")]
    removal = {"schema": order(ID_FIELD, NOTE_FIELD), "propagateSchemaTags": True, "schemaTagsToRemove": [tag]}
    server.ask("POST", path, removal)
    assert server.ask("GET", f"{path}/3?findTags=true")[1]["schemaTags"] == found[1:]


def test_rules_are_merged_and_removed_with_tags(server: RunningRegistry, subject: str) -> None:
    path = f"/subjects/{subject}/versions"
    server.ask("POST", path, {"schema": order(ID_FIELD), "ruleSet": RULES})
    other = {"domainRules": [{**RULES["domainRules"][0], "name": "s"}]}
    made = server.ask("POST", f"{path}/1/tags", {"rulesToMerge": other, "rulesToRemove": ["r"]})[1]
    assert made["ruleSet"] == other
    both = {"ruleSet": RULES, "rulesToRemove": ["r"]}
    assert server.ask("POST", f"{path}/1/tags", both)[1]["error_code"] == 42210


@pytest.mark.parametrize(
    ("kind", "default", "accepted"),
    [
        ("int", 1, True), ("int", "1", False), ("int", 2**31, False), ("long", 2**31, True), ("boolean", 0, False),
        ("string", "", True), ("string", None, False), (["null", "string"], None, True), (["null", "int"], 1, True),
        (["null", "int"], "x", False), ({"type": "array", "items": "int"}, [1], True), ("double", 1, True),
        ({"type": "array", "items": "int"}, ["x"], False), ({"type": "map", "values": "int"}, {"a": True}, False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", False), ("null", None, True), ("bytes", "\u00ff", True),
        ({"type": "fixed", "name": "F", "size": 2}, "a", False),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {}, False),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {"a": 1}, True),
    ],
)  # fmt: skip
def test_defaults_are_checked_only_with_validate_fields(
    server: RunningRegistry, subject: str, kind: Any, default: Any, accepted: bool
) -> None:
    schema = {"schema": order({"name": "f", "type": kind, "default": default})}
    server.ask("PUT", f"/config/{subject}", {"validateFields": True})
    status, answer = server.ask("POST", f"/subjects/{subject}/versions", schema)
    assert (status == 200) is accepted, answer
    if not accepted:
        assert answer["error_code"] == 42201
        assert "shop.Order.f" in answer["message"]
        server.ask("PUT", f"/config/{subject}", {"validateFields": False})
        assert server.ask("POST", f"/subjects/{subject}/versions", schema)[0] == 200


def test_reserved_fields_stay_reserved_with_validate_fields(server: RunningRegistry, subject: str) -> None:
    path, reserved = f"/subjects/{subject}/versions", {"properties": {"confluent:reserved": "note, later"}}
    server.ask("PUT", f"/config/{subject}", {"validateFields": True})
    used = {"schema": order(ID_FIELD, NOTE_FIELD), "metadata": reserved}
    assert server.ask("POST", path, used)[1]["error_code"] == 40901
    assert server.ask("POST", path, {"schema": order(ID_FIELD), "metadata": reserved})[0] == 200
    given_up = {"schema": order(ID_FIELD, NOTE_FIELD), "metadata": {"properties": {"confluent:reserved": "later"}}}
    status, answer = server.ask("POST", path, given_up)
    assert (status, "note" in answer["message"]) == (409, True)
