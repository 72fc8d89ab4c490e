"""A schema that refers to a soft-deleted version still decodes its records."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from headrace.serialization.errors import RegistryError
from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import AVRO, PROTOBUF
from headrace.serialization.wire_format import prefixed

_AMOUNT = {"type": "record", "name": "Amount", "fields": [{"name": "cents", "type": "int"}]}
_ORDER = {"type": "record", "name": "Order", "fields": [{"name": "total", "type": "Amount"}]}


def _proto(name: str, field: str, **kind: Any) -> str:
    """The text of a .proto file is parsed by the registry, which answers with the descriptor in base64."""
    needed = ["amount.proto"] if name == "Order" else []
    file = descriptor_pb2.FileDescriptorProto(syntax="proto3", dependency=needed)
    file.message_type.add(name=name).field.add(name=field, number=1, label=1, **kind)
    return base64.b64encode(file.SerializeToString()).decode()


class _Registry(RegistryClient):
    """Subject `amount` is soft-deleted, as is the subject of the schema with the id 1."""

    def __init__(self, kind: str) -> None:
        super().__init__("http://127.0.0.1:1")
        self.kind = kind

    def call(self, method: str, path: str, body: Any = None) -> Any:
        reference = {"name": "Amount" if self.kind == AVRO else "amount.proto", "subject": "amount", "version": 1}
        if path.startswith("/schemas/ids/1"):
            text = json.dumps(_ORDER) if self.kind == AVRO else _proto("Order", "total", type=11, type_name=".Amount")
            return {"schemaType": self.kind, "schema": text, "references": [reference]}
        if "deleted=true" not in path:
            raise RegistryError(40401, "Subject 'amount' not found.")
        text = json.dumps(_AMOUNT) if self.kind == AVRO else _proto("Amount", "cents", type=5)
        return {"subject": "amount", "version": 1, "id": 2, "schemaType": self.kind, "schema": text}


@pytest.mark.parametrize(("kind", "payload"), [(AVRO, b"\x0a"), (PROTOBUF, b"\x00\x0a\x02\x08\x05")])
def test_a_deleted_reference_is_still_read(kind: str, payload: bytes) -> None:
    found = RecordDecoder(_Registry(kind)).decode("t", prefixed(1, payload))
    assert (found.error, found.value) == (None, {"total": {"cents": 5}})
