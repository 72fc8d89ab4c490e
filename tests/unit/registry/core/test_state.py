"""Records of `_schemas` byte by byte, and the state that replaying them builds."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

from headrace.registry.core import operations, records
from headrace.registry.core.content import Content, Reference, guid_of
from headrace.registry.core.errors import RegistryError
from headrace.registry.core.records import Entry, SubjectVersion, decoded
from headrace.registry.core.requests import SchemaRequest
from headrace.registry.core.state import State
from tests.support.effort import rounds


def test_records_have_confluents_bytes() -> None:
    content = Content('"int"')
    version = SubjectVersion("orders-value", 2, 7, content, content.md5())
    key, value = records.schema_entry(version).encoded()
    assert key == b'{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1}'
    assert value == (
        b'{"subject":"orders-value","version":2,"id":7,"md5":"71JOobkecxc9k4reNsHbMg==","schema":"\\"int\\"","deleted":false}'
    )
    tombstone = records.schema_tombstone("orders-value", 2)
    assert tombstone.encoded() == (key, None)
    config = records.subject_entry(records.CONFIG, None, {"compatibilityLevel": "FULL"})
    assert config.encoded() == (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"FULL"}')
    mode = records.subject_entry(records.MODE, "a", {"mode": "READONLY"})
    assert mode.encoded() == (b'{"keytype":"MODE","subject":"a","magic":0}', b'{"subject":"a","mode":"READONLY"}')
    assert records.noop_entry().encoded() == (b'{"keytype":"NOOP","magic":0}', None)


def test_the_guid_is_the_md5_of_text_references_metadata_and_rules() -> None:
    plain = Content('"int"')
    assert plain.md5() == hashlib.md5(b'"int"', usedforsecurity=False).digest()
    assert guid_of(plain.md5()) == "ef524ea1-b91e-7317-3d93-8ade36c1db32"
    whole = Content(
        "t", "JSON", (Reference("n", "s", 3),), {"properties": {"b": "2", "a": "1"}},
        {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]},
    )  # fmt: skip
    expected = b"tns\x00\x00\x00\x03" + b"\x01" + b"a1b2" + b"\x01" + b"rCONDITIONWRITECELtrue"
    assert whole.md5() == hashlib.md5(expected, usedforsecurity=False).digest()


def replayed(*lines: tuple[str, str | None]) -> State:
    state = State()
    for key, value in lines:
        entry = decoded(key.encode(), None if value is None else value.encode())
        if entry is not None:
            state.replay(entry)
    return state


def test_a_topic_of_an_older_confluent_registry_is_read() -> None:
    def key(subject: str, version: int) -> str:
        return json.dumps({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})

    def value(subject: str, version: int, id_: int, schema: str) -> str:
        return json.dumps({"subject": subject, "version": version, "id": id_, "schema": schema, "deleted": False})

    state = replayed(
        ('{"keytype":"NOOP","magic":0}', None),
        ("not json", "x"),
        ('{"keytype":"SOMETHING_NEW","magic":9}', '{"a":1}'),
        ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL"}'),
        (key("a", 1), value("a", 1, 10, '"int"')),
        (key("a", 2), value("a", 2, 11, '"long"')),
        (key("b", 1), value("b", 1, 10, '"int"')),
        ('{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', '{"subject":"a","version":2}'),
        (key("c", 1), '{"subject":"c"}'),
    )
    assert [each.version for each in state.versions("a", deleted=True)] == [1, 2]
    assert state.versions("a") == []
    assert [each.subject for each in state.places(10)] == ["a", "b"]
    assert state.configs[None] == {"compatibilityLevel": "FULL"}
    assert "c" not in state.subjects
    made = operations.register(state, "new", SchemaRequest(Content('"string"')), normalize=False)
    assert made.reply.id == 12


def snapshot(state: State) -> Any:
    return (
        state.subjects,
        {name: (context.ids, context.hashes) for name, context in state.contexts.items()},
        state.configs,
        state.modes,
        state.referrers,
    )


def random_operation(chosen: random.Random) -> Callable[[State], operations.Decision]:
    subject = chosen.choice(("a", "b", ":.ctx:a"))
    number = chosen.randint(1, 6)
    text = json.dumps({"type": "fixed", "name": "F", "size": number})
    kind = chosen.randrange(8)
    if kind < 4:
        request = SchemaRequest(Content(text))
        return lambda state: operations.register(state, subject, request, normalize=False, force=True)
    if kind == 4:
        return lambda state: operations.delete_subject(state, subject, permanent=number > 3)
    if kind == 5:
        return lambda state: operations.delete_version(state, subject, chosen.choice((-1, 1, 2)), permanent=number > 3)
    if kind == 6:
        return lambda state: operations.set_config(state, subject, {"compatibility": "NONE"})
    return lambda state: operations.delete_context(state, ".ctx")


def test_random_operations_keep_ids_unique_and_a_compacted_replay_equal() -> None:
    """A new instance builds the leader's state from the topic, also after compaction has removed overwritten
    records."""
    for seed in range(rounds(short=60, long=3000)):
        chosen = random.Random(seed)
        state, log, meaning = State(), list[Entry](), dict[tuple[str, int], bytes]()
        for _ in range(40):
            operation = random_operation(chosen)
            before = len(log)
            try:
                decision = operation(state)
            except RegistryError:
                continue
            log += decision.records
            for entry in log[before:]:
                state.replay(entry)
            for name, context in state.contexts.items():
                for id_ in context.ids:
                    versions = state.places(id_, name)
                    assert len({each.md5 for each in versions}) == 1, f"seed {seed}: id {id_} has two contents"
                    assert meaning.setdefault((name, id_), versions[0].md5) == versions[0].md5 or name != "."
        last = {entry.encoded()[0]: index for index, entry in enumerate(log)}
        fresh, compacted = State(), State()
        for index, entry in enumerate(log):
            again = decoded(*entry.encoded())
            assert again is not None
            fresh.replay(again)
            if last[entry.encoded()[0]] == index:
                compacted.replay(again)
        assert snapshot(fresh) == snapshot(state), f"seed {seed}"
        assert snapshot(compacted) == snapshot(state), f"seed {seed}"


def test_a_reference_to_version_minus_one_is_stored_as_the_latest_version() -> None:
    state = State()

    def registered(subject: str, schema: str, *references: dict[str, Any]) -> SubjectVersion:
        asked = SchemaRequest.from_json({"schema": schema, "references": list(references)})
        decision = operations.register(state, subject, asked, normalize=False)
        for entry in decision.records:
            state.replay(entry)
        version = decision.reply
        assert isinstance(version, SubjectVersion)
        return version

    latest: dict[str, Any] = {"name": "A", "subject": "a", "version": -1}
    order = '{"type":"record","name":"Order","fields":[{"name":"a","type":"A"}]}'
    registered("a", '{"type":"record","name":"A","fields":[]}')
    first = registered("orders", order, latest)
    assert first.content.references == (Reference("A", "a", 1),)
    assert registered("orders", order, latest) == first
    registered("a", '{"type":"record","name":"A","fields":[{"name":"n","type":"int","default":0}]}')
    assert registered("orders", order, latest).content.references == (Reference("A", "a", 2),)
    assert [each.version for each in state.referenced_by("a", 1, deleted=False)] == [1]
