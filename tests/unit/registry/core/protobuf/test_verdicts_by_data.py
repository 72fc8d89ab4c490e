"""Protobuf verdicts against data: random values of the old schema are read by the new one, by protobuf's own library.

If the verdict is "compatible", every value reads the same. If it is not, some value does not. Limits: numbers are small
and positive, so that they fit all kinds of integers, and bytes are text. Three rules of Confluent refuse changes that
lose no data (`LOSSLESS`); a removed field is allowed, so only fields that both schemas have are compared.
"""

from __future__ import annotations

import base64
import random
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from headrace.registry.core.protobuf.parsed import ParsedProtobuf
from tests.support.effort import rounds

INTEGERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64")
SCALARS = (*INTEGERS, "bool", "float", "double", "string", "bytes", "E")
PARTS = "{ int32 n = 1; string t = 2; }"
REST = f"message N {PARTS} message O {PARTS} enum E {{ Z = 0; A = 1; B = 77; }}"
# A bool reads any of these as true unless it is 0.
READ_AS_BOOL = ("int32", "int64", "uint32", "uint64", "E", "bool")
LOSSLESS = {"FIELD_NAMED_TYPE_CHANGED", "FIELD_NUMERIC_LABEL_CHANGED", "ONEOF_FIELD_REMOVED"}
FIELDS = 4


def parsed(fields: dict[int, str], in_oneof: set[int]) -> ParsedProtobuf:
    plain = "".join(f"{kind} f{number} = {number}; " for number, kind in fields.items() if number not in in_oneof)
    chosen = "".join(f"{fields[number]} f{number} = {number}; " for number in sorted(in_oneof))
    body = plain + (f"oneof k {{ {chosen} }}" if chosen else "")
    return ParsedProtobuf.parse(f'syntax = "proto3"; package p; message M {{ {body} }} {REST}', {})


def message_class(schema: ParsedProtobuf) -> Any:
    pool = descriptor_pool.DescriptorPool()
    file = FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized")))
    file.name = "m.proto"
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))


def random_kind(chance: random.Random) -> str:
    kind = chance.choice((*SCALARS, "N", "O"))
    form = chance.random()
    if form < 0.15:
        return f"repeated {kind}"
    return f"map<string, {kind}>" if form < 0.25 else kind


def random_value(kind: str, chance: random.Random) -> Any:
    if kind.startswith("repeated "):
        return [random_value(kind[9:], chance) for _ in range(chance.randint(0, 2))]
    if kind.startswith("map"):
        inner = kind[len("map<string, ") : -1]
        return {key: random_value(inner, chance) for key in chance.sample("ab", chance.randint(0, 2))}
    if kind in ("N", "O"):
        return {"n": chance.choice((0, 1, 77)), "t": chance.choice(("", "x"))}
    if kind in ("string", "bytes"):
        text = chance.choice(("", "x", "yy"))
        return text.encode() if kind == "bytes" else text
    if kind == "bool":
        return chance.choice((False, True))
    return chance.choice((0, 1, 77))


def seen(value: Any, field: FieldDescriptor | None = None) -> Any:
    """A value as both schemas see it: messages by numbers of fields, maps as pairs, numbers for bools and enums, bytes
    for text."""
    if field is not None and field.is_repeated:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return tuple(sorted(((seen(key), seen(each)) for key, each in value.items()), key=lambda pair: pair[0]))
        return [seen(each) for each in value]
    if hasattr(value, "ListFields"):
        return {each.number: seen(part, each) for each, part in value.ListFields()}
    if isinstance(value, str):
        return value.encode()
    return int(value) if isinstance(value, bool) else value


def base(kind: str) -> str:
    return kind.removeprefix("repeated ").removeprefix("map<string, ").removesuffix(">")


def as_bools(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple((key, as_bools(each)) for key, each in value)
    return [as_bools(each) for each in value] if isinstance(value, list) else int(bool(value))


def is_same(old: Any, new: Any) -> bool:
    if isinstance(old, list) and not isinstance(new, list):
        # The last of several values wins. Several messages are merged.
        return not new if not old else isinstance(new, dict) or is_same(old[-1], new)
    if isinstance(new, list) and not isinstance(old, list):
        return new == [old] or (not new and not old)
    return bool(old == new)


def reads_the_same(old: Any, new: Any, fields: dict[int, str], changed: dict[int, str], chance: random.Random) -> bool:
    values = {f"f{number}": random_value(kind, chance) for number, kind in fields.items()}
    written = old(**values)
    try:
        read = new.FromString(written.SerializeToString())
    except DecodeError:
        return False
    before, after = seen(written), seen(read)
    for number in fields.keys() & changed.keys():
        default: Any = (
            () if changed[number].startswith("map") else [] if changed[number].startswith("repeated") else None
        )
        first, second = before.get(number), after.get(number, default)
        if base(changed[number]) == "bool" and base(fields[number]) in READ_AS_BOOL and first is not None:
            first = as_bools(first)
        if first is None:
            if second:
                return False
        elif second is None:
            if first[-1] if isinstance(first, list) and first else first:
                return False
        elif not is_same(first, second):
            return False
    return True


def test_verdicts_are_those_of_the_data() -> None:
    chance = random.Random(11)
    verdicts = {True: 0, False: 0}
    for _ in range(rounds(short=150, long=8000)):
        fields = {number: random_kind(chance) for number in range(1, FIELDS + 1)}
        changed = {
            number: random_kind(chance) if chance.random() < 0.25 else kind
            for number, kind in fields.items()
            if chance.random() > 0.1
        }
        single = {number for number, kind in changed.items() if " " not in kind and " " not in fields[number]}
        moved = set(chance.sample(sorted(single), min(len(single), chance.choice((0, 0, 1, 2)))))
        old, new = parsed(fields, set()), parsed(changed, moved)
        refused = {each.kind for each in new.incompatibilities(old, lenient=False)}
        first, second = message_class(old), message_class(new)
        same = [reads_the_same(first, second, fields, changed, chance) for _ in range(12)]
        if not refused:
            assert all(same), (old.canonical(), new.canonical())
        elif not refused <= LOSSLESS:
            assert not all(same), (refused, old.canonical(), new.canonical())
        verdicts[not refused] += 1
    assert min(verdicts.values()) > 10
