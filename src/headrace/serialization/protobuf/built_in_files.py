"""Files that every Protobuf schema may import without a reference: Protobuf's well-known types and Confluent's own."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto

_GOOGLE: Final = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip
_CONFLUENT: Final = {
    "confluent/meta.proto": """
        package: "confluent"
        message_type {
          name: "Meta"
          field { name: "doc" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
          field {
            name: "params" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE
            type_name: ".confluent.Meta.ParamsEntry"
          }
          field { name: "tags" number: 3 label: LABEL_REPEATED type: TYPE_STRING }
          nested_type {
            name: "ParamsEntry"
            field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
            field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
            options { map_entry: true }
          }
        }
    """,
    "confluent/type/decimal.proto": """
        package: "confluent.type"
        message_type {
          name: "Decimal"
          field { name: "value" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
          field { name: "precision" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT32 }
          field { name: "scale" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
        }
    """,
    "confluent/type/variant.proto": """
        package: "confluent.type"
        message_type {
          name: "Variant"
          field { name: "metadata" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
          field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
        }
    """,
}


@cache
def built_in_descriptor(name: str) -> FileDescriptorProto | None:
    made = FileDescriptorProto()
    if name in _CONFLUENT:
        text_format.Parse(_CONFLUENT[name], made)
        made.name, made.syntax = name, "proto3"
        return made
    short = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if not name.startswith("google/protobuf/") or short not in _GOOGLE:
        return None
    import_module(f"google.protobuf.{short}_pb2").DESCRIPTOR.CopyToProto(made)
    return made
