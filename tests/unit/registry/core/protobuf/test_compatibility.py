"""Protobuf: the canonical text, descriptors in base64, and the rules one by one."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.protobuf.parsed import ParsedProtobuf
from tests.support.effort import rounds


def proto(body: str, *, head: str = 'syntax = "proto3"; package p;', **references: str) -> ParsedProtobuf:
    return ParsedProtobuf.parse(head + body, references)


def kinds(old: str, new: str) -> set[str]:
    return {each.kind for each in proto(new).incompatibilities(proto(old), lenient=False)}


def message(body: str) -> str:
    return f"message M {{ {body} }} message N {{ int32 n = 1; }} message O {{ int32 n = 1; }} enum E {{ Z = 0; }}"


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("int32 a = 1;", "int32 a = 1; string b = 2;", set()),
        ("int32 a = 1; string b = 2;", "int32 a = 1;", set()),
        ("int32 a = 1;", "int32 renamed = 1;", set()),
        ("int32 a = 1;", "int64 a = 1;", set()),
        ("int32 a = 1;", "E a = 1;", set()),
        ("int32 a = 1;", "bool a = 1;", set()),
        ("int32 a = 1;", "sint32 a = 1;", {"FIELD_SCALAR_KIND_CHANGED"}),
        ("int32 a = 1;", "string a = 1;", {"FIELD_SCALAR_KIND_CHANGED"}),
        ("string a = 1;", "bytes a = 1;", set()),
        ("fixed32 a = 1;", "sfixed32 a = 1;", set()),
        ("fixed32 a = 1;", "fixed64 a = 1;", {"FIELD_SCALAR_KIND_CHANGED"}),
        ("N a = 1;", "O a = 1;", {"FIELD_NAMED_TYPE_CHANGED"}),
        ("N a = 1;", "int32 a = 1;", {"FIELD_KIND_CHANGED"}),
        ("map<string, int32> a = 1;", "map<string, int64> a = 1;", set()),
        ("map<string, int32> a = 1;", "map<string, string> a = 1;", {"FIELD_SCALAR_KIND_CHANGED"}),
        ("map<string, int32> a = 1;", "int32 a = 1;", {"FIELD_KIND_CHANGED"}),
        ("int32 a = 1;", "repeated int32 a = 1;", {"FIELD_NUMERIC_LABEL_CHANGED"}),
        ("string a = 1;", "repeated string a = 1;", set()),
        ("int32 a = 1;", "oneof k { int32 a = 1; int32 b = 2; }", set()),
        (
            "int32 a = 1; int32 b = 2;",
            "oneof k { int32 a = 1; int32 b = 2; }",
            {"MULTIPLE_FIELDS_MOVED_TO_ONEOF"},
        ),
        (
            "int32 a = 1; oneof k { int32 b = 2; }",
            "oneof k { int32 b = 2; int32 a = 1; }",
            {"FIELD_MOVED_TO_EXISTING_ONEOF"},
        ),
        ("oneof k { int32 a = 1; int32 b = 2; }", "oneof k { int32 a = 1; }", {"ONEOF_FIELD_REMOVED"}),
        ("oneof k { int32 a = 1; int32 b = 2; }", "int32 a = 1; int32 b = 2;", set()),
        ("oneof k { int32 a = 1; }", "oneof k { int32 a = 1; string b = 2; }", set()),
        (
            "message In { int32 x = 1; } In a = 1;",
            "message In { string x = 1; } In a = 1;",
            {"FIELD_SCALAR_KIND_CHANGED"},
        ),
        ("message In { int32 x = 1; }", "", {"MESSAGE_REMOVED"}),
        ("enum In { A = 0; }", "", set()),
    ],
)
def test_a_change_is_judged_by_its_rule(old: str, new: str, refused: set[str]) -> None:
    assert kinds(message(old), message(new)) == refused


def test_packages_required_fields_and_imported_files_count() -> None:
    old = proto("message M { int32 a = 1; }")
    assert [e.kind for e in proto("message M {}", head="package q;").incompatibilities(old, lenient=False)] == [
        "PACKAGE_CHANGED"
    ]
    plain = proto("message M { optional int32 a = 1; }", head="package p;")
    strict = proto("message M { optional int32 a = 1; required int32 b = 2; }", head="package p;")
    assert [e.kind for e in strict.incompatibilities(plain, lenient=False)] == ["REQUIRED_FIELD_ADDED"]
    assert [e.kind for e in plain.incompatibilities(strict, lenient=False)] == ["REQUIRED_FIELD_REMOVED"]
    text = 'syntax = "proto3"; import "n.proto"; message M { N n = 1; }'
    first = ParsedProtobuf.parse(text, {"n.proto": 'syntax = "proto3"; message N { int32 a = 1; }'})
    second = ParsedProtobuf.parse(text, {"n.proto": 'syntax = "proto3"; message N { string a = 1; }'})
    assert [e.path for e in second.incompatibilities(first, lenient=False)] == ["#/N/1"]


def test_canonical_text_has_confluents_form() -> None:
    written = """
        syntax = "proto3";   // a comment
        package shop;
        import "google/protobuf/timestamp.proto";
        option java_package = "com.shop";
        enum Kind { NONE = 0; BOOK = 1; }
        message Order {
          reserved 7, 9 to 11;
          string id = 1; repeated Item items = 2;
          map<string, int64> prices = 3 [deprecated = true];
          oneof paid { string card = 4; bool cash = 5; }
          message Item { Kind kind = 1; google.protobuf.Timestamp at = 2; }
        }
    """
    expected = """syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";

option java_package = "com.shop";

message Order {
  reserved 7, 9 to 11;

  string id = 1;
  repeated Item items = 2;
  map<string, int64> prices = 3 [deprecated = true];

  oneof paid {
    string card = 4;
    bool cash = 5;
  }

  message Item {
    Kind kind = 1;
    google.protobuf.Timestamp at = 2;
  }
}
enum Kind {
  NONE = 0;
  BOOK = 1;
}
"""
    parsed = ParsedProtobuf.parse(written, {})
    assert parsed.canonical() == expected
    assert ParsedProtobuf.parse(expected, {}).canonical() == expected
    serialized = parsed.formatted("serialized")
    again = ParsedProtobuf.parse(serialized, {})
    assert again.formatted("serialized") == serialized
    assert again.normalized() == parsed.normalized()
    assert not again.incompatibilities(parsed, lenient=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('syntax = "proto3"; message M { string a = ; }', "line 1, column 43"),
        ('syntax = "proto3"; message M { Nope a = 1; }', "type 'Nope' in M is not defined"),
        ('syntax = "proto3"; import "other.proto"; message M {}', "add a reference"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "has the number 1 of field 'a'"),
        ('syntax = "proto3"; message M { int32 a = 19500; }', "19000"),
        ('syntax = "proto9"; message M {}', "proto9"),
        ('syntax = "proto3"; enum E {}', "no values"),
        ("hello world", "line 1"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidSchema, match=said):
        ParsedProtobuf.parse(text, {})


def message_class(parsed: ParsedProtobuf) -> Any:
    pool = descriptor_pool.DescriptorPool()
    file = FileDescriptorProto.FromString(base64.b64decode(parsed.formatted("serialized")))
    file.name = "m.proto"
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))


SAMPLES = {
    **dict.fromkeys(("int32", "int64", "sint32", "sint64", "fixed32", "fixed64", "uint64"), (0, 1, 77)),
    "bool": (True, False),
    "string": ("", "x"),
    "bytes": (b"", b"x"),
}


def test_compatible_new_schema_reads_data_of_the_old_one_unchanged() -> None:
    chosen = random.Random(3)
    compatible = 0
    for _ in range(rounds(short=60, long=3000)):
        types = [chosen.choice(list(SAMPLES)) for _ in range(3)]
        changed = [chosen.choice(list(SAMPLES)) if chosen.random() < 0.4 else each for each in types]
        texts = ["".join(f"{t} f{i} = {i}; " for i, t in enumerate(of, 1)) for of in (types, changed)]
        old, new = (proto(f"message M {{ {text} }}") for text in texts)
        if new.incompatibilities(old, lenient=False):
            continue
        compatible += 1
        values = {f"f{i}": chosen.choice(SAMPLES[t]) for i, t in enumerate(types, 1)}
        read = message_class(new).FromString(message_class(old)(**values).SerializeToString())
        for name, value in values.items():
            found = getattr(read, name)
            as_text = value.encode() if isinstance(value, str) else value
            found_text = found.encode() if isinstance(found, str) else found
            assert found_text == as_text or (isinstance(found, bool) and found == bool(value)), (texts, name)
    assert compatible > 5
