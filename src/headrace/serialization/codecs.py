"""One interface for the payloads of all schema types."""

from __future__ import annotations

from typing import Any, Protocol

from headrace.serialization.errors import SerializationError
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import AVRO, JSON, PROTOBUF, XML, RegisteredSchema


class Codec(Protocol):
    @property
    def record_name(self) -> str | None:
        """What the record strategies name a subject after."""
        ...

    def decode(self, payload: bytes, indexes: bytes | None = None) -> Any:
        """Python values. `indexes`: what follows the id or GUID in a header. Raises SerializationError."""
        ...

    def encode(self, value: Any) -> bytes:
        """The payload without prefix and message indexes. Raises SerializationError."""
        ...

    def plain(self, value: Any) -> Any:
        """A decoded value as JSON values."""
        ...

    def indexes(self) -> bytes:
        """The message indexes of what `encode` writes; empty if the type has none."""
        ...


def codec_of(
    schema: RegisteredSchema,
    client: RegistryClient,
    *,
    reader: RegisteredSchema | None = None,
    message: str | None = None,
    any_pattern: bool = False,
) -> Codec:
    """`reader`: Avro records are resolved to it. `message`: the Protobuf message to write. `any_pattern`: JSON Schemas
    may have patterns that RE2 does not support, which is for the user's own process, never for a service. Each type
    imports its own libraries when it is first used."""
    if schema.kind == AVRO:
        from headrace.serialization.avro.codec import AvroCodec

        return AvroCodec(schema, client, reader if reader is not None and reader.kind == AVRO else None)
    if schema.kind == JSON:
        from headrace.serialization.json_schema import JsonCodec

        return JsonCodec(schema, client, any_pattern=any_pattern)
    if schema.kind == PROTOBUF:
        from headrace.serialization.protobuf.codec import ProtobufCodec

        return ProtobufCodec(schema, client, message)
    if schema.kind == XML:
        try:
            from headrace.serialization.xml_schema import XmlCodec
        except ModuleNotFoundError as fault:
            raise SerializationError(f"XML Schema needs the library {fault.name}: install headrace[xml]") from fault

        return XmlCodec(schema, client)
    raise SerializationError(f"schema id {schema.id} has the type {schema.kind}: must be AVRO, JSON, PROTOBUF or XML")
