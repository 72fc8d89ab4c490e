"""Routes below /subjects and /compatibility: answers and documented error codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.registry import RunningRegistry

INT, LONG, STRING = '"int"', '"long"', '"string"'


def fixed(size: int) -> str:
    return json.dumps({"type": "fixed", "name": "F", "size": size})


def register(server: RunningRegistry, subject: str, schema: str, query: str = "", **fields: Any) -> Any:
    status, answer = server.ask("POST", f"/subjects/{subject}/versions{query}", {"schema": schema, **fields})
    assert status == 200, answer
    return answer


def refused(server: RunningRegistry, method: str, path: str, body: Any = None) -> tuple[int, int]:
    status, answer = server.ask(method, path, body)
    assert answer["message"]
    return status, answer["error_code"]


def test_same_text_has_one_id_and_each_subject_has_its_versions(server: RunningRegistry, subject: str) -> None:
    first = register(server, subject, INT)
    assert (first["version"], first["schema"]) == (1, INT)
    assert register(server, subject, '{"type": "int"}') == first
    second = register(server, subject, LONG)
    assert second["version"] == 2
    other = register(server, f"{subject}-b", LONG)
    assert (other["id"], other["version"], other["guid"]) == (second["id"], 1, second["guid"])
    assert server.ask("GET", f"/subjects/{subject}/versions") == (200, [1, 2])
    _, uses = server.ask("GET", f"/schemas/ids/{second['id']}/versions")
    assert {(each["subject"], each["version"]) for each in uses} >= {(subject, 2), (f"{subject}-b", 1)}


def test_unknown_subjects_versions_and_schemas_have_error_codes(server: RunningRegistry, subject: str) -> None:
    assert refused(server, "GET", f"/subjects/{subject}/versions") == (404, 40401)
    assert refused(server, "GET", f"/subjects/{subject}/versions/1") == (404, 40401)
    assert refused(server, "POST", f"/subjects/{subject}", {"schema": INT}) == (404, 40401)
    register(server, subject, INT)
    assert refused(server, "GET", f"/subjects/{subject}/versions/2") == (404, 40402)
    assert refused(server, "GET", f"/subjects/{subject}/versions/0") == (422, 42202)
    assert refused(server, "GET", f"/subjects/{subject}/versions/first") == (422, 42202)
    assert refused(server, "POST", f"/subjects/{subject}", {"schema": STRING}) == (404, 40403)
    assert refused(server, "GET", "/schemas/ids/999999") == (404, 40403)
    assert refused(server, "GET", f"/config/{subject}") == (404, 40408)
    assert refused(server, "GET", f"/mode/{subject}") == (404, 40409)


def test_deleting_is_soft_first_and_permanent_second(server: RunningRegistry, subject: str) -> None:
    ids = [register(server, subject, each)["id"] for each in (INT, LONG)]
    assert refused(server, "DELETE", f"/subjects/{subject}/versions/1?permanent=true") == (404, 40407)
    assert server.ask("DELETE", f"/subjects/{subject}/versions/1") == (200, 1)
    assert refused(server, "DELETE", f"/subjects/{subject}/versions/1") == (404, 40406)
    assert server.ask("GET", f"/subjects/{subject}/versions") == (200, [2])
    assert server.ask("GET", f"/subjects/{subject}/versions?deleted=true") == (200, [1, 2])
    assert server.ask("GET", f"/subjects/{subject}/versions?deletedOnly=true") == (200, [1])
    assert server.ask("GET", f"/subjects/{subject}/versions?deletedAsNegative=true") == (200, [-1, 2])
    assert server.ask("GET", f"/schemas/ids/{ids[0]}")[0] == 200
    assert refused(server, "DELETE", f"/subjects/{subject}?permanent=true") == (404, 40405)
    assert server.ask("DELETE", f"/subjects/{subject}") == (200, [2])
    assert refused(server, "DELETE", f"/subjects/{subject}") == (404, 40404)
    assert subject not in server.ask("GET", "/subjects")[1]
    assert subject in server.ask("GET", "/subjects?deleted=true")[1]
    assert server.ask("DELETE", f"/subjects/{subject}?permanent=true") == (200, [1, 2])
    assert refused(server, "DELETE", f"/subjects/{subject}?permanent=true") == (404, 40401)
    assert register(server, subject, fixed(77))["version"] == 1


def test_id_disappears_with_its_last_permanent_delete(server: RunningRegistry, subject: str) -> None:
    id_ = register(server, subject, fixed(123_456))["id"]
    for query in ("", "?permanent=true"):
        assert server.ask("DELETE", f"/subjects/{subject}{query}") == (200, [1])
    assert refused(server, "GET", f"/schemas/ids/{id_}") == (404, 40403)
    assert register(server, subject, fixed(123_457))["id"] > id_


def test_deleted_schema_registered_again_keeps_its_id_and_gets_a_new_version(
    server: RunningRegistry, subject: str
) -> None:
    first = register(server, subject, fixed(31))
    server.ask("DELETE", f"/subjects/{subject}")
    again = register(server, subject, fixed(31))
    assert (again["id"], again["version"]) == (first["id"], 2)


@pytest.mark.parametrize(
    ("level", "accepted", "refused_ones"),
    [
        ("BACKWARD", LONG, [STRING]),
        ("FORWARD", INT, [STRING, '"float"']),
        ("FULL", INT, [LONG]),
        ("NONE", STRING, []),
    ],
)
def test_compatibility_level_of_the_subject_applies(
    server: RunningRegistry, subject: str, level: str, accepted: str, refused_ones: list[str]
) -> None:
    register(server, subject, INT)
    assert server.ask("PUT", f"/config/{subject}", {"compatibility": level}) == (200, {"compatibility": level})
    path = f"/subjects/{subject}/versions"
    for each in refused_ones:
        assert refused(server, "POST", path, {"schema": each}) == (409, 40901)
    assert server.ask("POST", path, {"schema": accepted})[0] == 200


def test_transitive_levels_check_every_version(server: RunningRegistry, subject: str) -> None:
    def record(*fields: dict[str, Any]) -> str:
        return json.dumps({"type": "record", "name": "R", "fields": list(fields)})

    plain = {"name": "a", "type": "int"}
    register(server, subject, record(plain))
    register(server, subject, record(plain, {"name": "b", "type": "int", "default": 0}))
    without = {"schema": record(plain, {"name": "b", "type": "int"})}
    check = f"/compatibility/subjects/{subject}/versions"
    assert server.ask("POST", check, without) == (200, {"is_compatible": True})
    server.ask("PUT", f"/config/{subject}", {"compatibility": "BACKWARD_TRANSITIVE"})
    assert server.ask("POST", check, without) == (200, {"is_compatible": False})
    assert server.ask("POST", f"{check}/latest", without) == (200, {"is_compatible": True})
    assert server.ask("POST", f"{check}/1", without) == (200, {"is_compatible": False})
    _, answer = server.ask("POST", f"{check}/1?verbose=true", without)
    assert "give 'b' a default" in answer["messages"][0]


def test_a_check_against_a_missing_subject_is_compatible_and_a_missing_version_is_not_found(
    server: RunningRegistry, subject: str
) -> None:
    path = f"/compatibility/subjects/{subject}/versions"
    assert server.ask("POST", f"{path}/latest", {"schema": INT}) == (200, {"is_compatible": True})
    assert refused(server, "POST", f"{path}/1", {"schema": INT}) == (404, 40402)


def test_existing_schema_is_returned_without_mode_and_compatibility_checks(
    server: RunningRegistry, subject: str
) -> None:
    first = register(server, subject, INT)
    register(server, subject, LONG)
    assert register(server, subject, INT) == first
    server.ask("PUT", f"/mode/{subject}", {"mode": "READONLY"})
    assert register(server, subject, INT) == first
    path = f"/subjects/{subject}/versions"
    assert refused(server, "POST", path, {"schema": '"double"'}) == (422, 42205)
    assert refused(server, "DELETE", f"/subjects/{subject}") == (422, 42205)
    server.ask("DELETE", f"/mode/{subject}")
    assert server.ask("POST", path, {"schema": '"double"'})[0] == 200


def test_import_mode_accepts_ids_and_versions(server: RunningRegistry, subject: str) -> None:
    path = f"/subjects/{subject}/versions"
    assert refused(server, "POST", path, {"schema": INT, "id": 5}) == (422, 42205)
    assert server.ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert refused(server, "POST", path, {"schema": fixed(1)}) == (422, 42205)
    assert register(server, subject, fixed(50_001), id=50_001, version=7)["id"] == 50_001
    assert server.ask("GET", f"{path}/7")[1]["id"] == 50_001
    assert refused(server, "POST", path, {"schema": fixed(2), "id": 50_001, "version": 8}) == (422, 42205)
    other = f"{subject}-b"
    register(server, other, fixed(3))
    assert refused(server, "PUT", f"/mode/{other}", {"mode": "IMPORT"}) == (422, 42205)
    assert server.ask("PUT", f"/mode/{other}?force=true", {"mode": "IMPORT"})[0] == 200
    assert register(server, f"{subject}-c", fixed(4))["id"] > 50_001
    assert refused(server, "PUT", f"/mode/{subject}", {"mode": "WRITE"}) == (422, 42204)


def test_references_are_resolved_protected_and_listed(server: RunningRegistry, subject: str) -> None:
    register(server, f"{subject}-item", '{"type":"enum","name":"shop.Item","symbols":["A"]}')
    order = '{"type":"record","name":"Order","fields":[{"name":"item","type":"shop.Item"}]}'
    references = [{"name": "shop.Item", "subject": f"{subject}-item", "version": 1}]
    path = f"/subjects/{subject}/versions"
    assert refused(server, "POST", path, {"schema": order}) == (422, 42201)
    missing = [{**references[0], "version": 2}]
    assert refused(server, "POST", path, {"schema": order, "references": missing}) == (422, 42201)
    made = register(server, subject, order, references=references)
    assert server.ask("GET", f"/subjects/{subject}-item/versions/1/referencedby") == (200, [made["id"]])
    assert refused(server, "DELETE", f"/subjects/{subject}-item") == (422, 42206)
    inlined = server.ask("GET", f"{path}/1?format=resolved")[1]["schema"]
    assert '"symbols":["A"]' in inlined
    assert server.ask("POST", f"/subjects/{subject}", {"schema": inlined})[1]["version"] == 1
    server.ask("DELETE", f"/subjects/{subject}")
    assert server.ask("DELETE", f"/subjects/{subject}-item") == (200, [1])
    assert refused(server, "DELETE", f"/subjects/{subject}-item?permanent=true") == (422, 42206)


def test_contexts_have_ids_and_subjects_of_their_own(server: RunningRegistry, subject: str) -> None:
    context = f".{subject}"
    register(server, subject, fixed(901))
    inside = register(server, f":{context}:{subject}", fixed(902))
    assert inside["id"] == 1
    assert register(server, f"%3A{context}%3A{subject}", fixed(902)) == inside
    status, answer = server.ask("GET", f"/contexts/{context}/subjects")
    assert (status, answer) == (200, [f":{context}:{subject}"])
    assert server.ask("GET", f"/contexts/{context}/schemas/ids/1")[1]["schema"] == fixed(902).replace(" ", "")
    assert server.ask("GET", f"/contexts/{context}/subjects/{subject}/versions") == (200, [1])
    assert context in server.ask("GET", "/contexts")[1]
    assert server.ask("GET", f"/schemas/guids/{inside['guid']}/ids") == (200, [{"context": context, "id": 1}])
    assert refused(server, "DELETE", f"/contexts/{context}") == (422, 42211)
    for query in ("", "?permanent=true"):
        server.ask("DELETE", f"/contexts/{context}/subjects/{subject}{query}")
    assert server.ask("DELETE", f"/contexts/{context}")[0] == 204
    assert context not in server.ask("GET", "/contexts")[1]


def test_settings_fall_back_from_subject_to_context_to_global(server: RunningRegistry, subject: str) -> None:
    inside = f":.{subject}:a"
    effective = f"/config/{inside}?defaultToGlobal=true"
    assert server.ask("GET", effective) == (200, {"compatibilityLevel": "BACKWARD"})
    server.ask("PUT", "/config/:.__GLOBAL:", {"compatibility": "FULL"})
    assert server.ask("GET", effective) == (200, {"compatibilityLevel": "FULL"})
    server.ask("PUT", f"/config/:.{subject}:", {"compatibility": "NONE"})
    assert server.ask("GET", effective) == (200, {"compatibilityLevel": "NONE"})
    server.ask("PUT", f"/config/{inside}", {"compatibilityLevel": "FORWARD"})
    assert server.ask("GET", effective) == (200, {"compatibilityLevel": "FORWARD"})
    assert server.ask("DELETE", f"/config/{inside}") == (200, {"compatibilityLevel": "FORWARD"})
    assert server.ask("GET", effective) == (200, {"compatibilityLevel": "NONE"})
    assert server.ask("DELETE", "/config/:.__GLOBAL:")[0] == 200
    assert refused(server, "PUT", "/config", {"compatibility": "SOMETIMES"}) == (422, 42203)


def test_metadata_and_rules_are_part_of_the_schema_and_inherited(server: RunningRegistry, subject: str) -> None:
    plain = register(server, subject, INT)
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}
    owned = register(server, subject, INT, metadata={"properties": {"owner": "me"}}, ruleSet=rules)
    assert owned["id"] != plain["id"]
    assert owned["guid"] != plain["guid"]
    grown = register(server, subject, LONG)
    assert grown["metadata"] == {"properties": {"owner": "me"}}
    assert grown["ruleSet"] == rules
    _, found = server.ask("GET", f"/subjects/{subject}/metadata?key=owner&value=me")
    assert found["version"] == 3
    twice = {"domainRules": rules["domainRules"] * 2}
    path = f"/subjects/{subject}/versions"
    assert refused(server, "POST", path, {"schema": '"double"', "ruleSet": twice}) == (422, 42210)


def test_normalized_schemas_share_an_id(server: RunningRegistry, subject: str) -> None:
    first = '{"type":"string","b":1,"a":2}'
    second = '{"type":"string","a":2,"b":1}'
    one = register(server, subject, first, "?normalize=true")
    assert register(server, subject, second, "?normalize=true") == one
    assert register(server, subject, second)["id"] == one["id"]
    assert register(server, subject, first)["id"] != one["id"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("", "Empty schema"),
        ('{"type":"record"', "line 1"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"nope"}]}', "fields[0].type"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "twice"),
        ('["int","int"]', "twice"),
        ('{"type":"enum","name":"E"}', "symbols"),
        ("[" * 5000 + "]" * 5000, "nested"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(
    server: RunningRegistry, subject: str, schema: str, said: str
) -> None:
    status, answer = server.ask("POST", f"/subjects/{subject}/versions", {"schema": schema})
    assert (status, answer["error_code"]) == (422, 42201)
    assert said in answer["message"]
    assert refused(server, "GET", f"/subjects/{subject}/versions") == (404, 40401)


def test_bad_requests_store_nothing(server: RunningRegistry, subject: str) -> None:
    path = f"/subjects/{subject}/versions"
    assert server.ask("POST", path, b'{"schema": "\\"int\\""')[0] == 400
    assert server.ask("POST", path, b"[]")[0] == 422
    assert server.ask("POST", path, {"schema": 7})[0] == 400
    assert server.ask("POST", path, {"schema": INT, "schemaType": "YAML"})[1]["error_code"] == 42201
    assert server.ask("POST", path, {"schema": INT}, Content_Type="text/plain")[0] == 415
    assert server.ask("POST", path, {"schema": INT}, Accept="text/html")[0] == 406
    assert refused(server, "POST", f"/subjects/{subject}%01/versions", {"schema": INT}) == (422, 42208)
    large = json.dumps({"type": "string", "doc2": "x" * 5_000_000})
    assert refused(server, "POST", path, {"schema": large}) == (422, 42209)
    assert refused(server, "GET", path) == (404, 40401)
    for kind in ("application/json", "application/octet-stream", "application/vnd.schemaregistry+json"):
        assert server.ask("POST", path, {"schema": INT, "unknown": 1}, Content_Type=kind)[0] == 200


def test_a_subject_may_hold_any_printable_character(server: RunningRegistry, subject: str) -> None:
    encoded = f"{subject}%2Fa%20b%C3%A4%3F"
    register(server, encoded, INT)
    assert f"{subject}/a bä?" in server.ask("GET", "/subjects")[1]
    assert server.ask("GET", f"/subjects/{encoded}/versions/latest/schema") == (200, "int")


def test_listings_are_limited_by_prefix_offset_and_limit(server: RunningRegistry, subject: str) -> None:
    names = [f"{subject}-{index}" for index in range(4)]
    for name in names:
        register(server, name, INT)
    assert server.ask("GET", f"/subjects?subjectPrefix={subject}") == (200, names)
    assert server.ask("GET", f"/subjects?subjectPrefix={subject}&offset=1&limit=2") == (200, names[1:3])
    _, schemas = server.ask("GET", f"/schemas?subjectPrefix={subject}&latestOnly=true")
    assert [each["subject"] for each in schemas] == names
    assert "AVRO" in server.ask("GET", "/schemas/types")[1]
