"""Files that every schema may import without a reference: Protobuf's well-known types and Confluent's own."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from headrace.registry.core.protobuf.descriptors import file_of
from headrace.registry.core.protobuf.file import ProtoFile
from headrace.registry.core.protobuf.parsing import parse_proto

_GOOGLE: Final = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip
_CONFLUENT: Final = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "confluent/type/variant.proto": """
        syntax = "proto3";
        package confluent.type;
        message Variant { bytes metadata = 1; bytes value = 2; }
    """,
}


@cache
def built_in_file(name: str) -> ProtoFile | None:
    if name in _CONFLUENT:
        return parse_proto(_CONFLUENT[name])
    short = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if not name.startswith("google/protobuf/") or short not in _GOOGLE:
        return None
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    descriptor = FileDescriptorProto()
    import_module(f"google.protobuf.{short}_pb2").DESCRIPTOR.CopyToProto(descriptor)
    return file_of(descriptor)
