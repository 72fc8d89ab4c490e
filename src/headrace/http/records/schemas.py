"""The schema registry as the caller sees it: schemas to write with, and payloads to decode.

The registry client blocks, so a thread runs whatever may ask the registry. Schemas and codecs that are known are used
on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from headrace.kernel.json_values import JsonValue
from headrace.serialization.codecs import Codec, codec_of
from headrace.serialization.errors import RegistryError, RegistryUnreachable, SerializationError
from headrace.serialization.record_decoder import Decoded, RecordDecoder
from headrace.serialization.record_encoder import checked_payload
from headrace.serialization.registry_login import registry_client
from headrace.serialization.rules import Conditions, RuleMode
from headrace.serialization.schema import RegisteredSchema
from headrace.serialization.wire_format import prefixed
from headrace.web.errors import Problem
from headrace.web.login import Caller

KINDS: Final = {"AVRO": "AVRO", "JSONSCHEMA": "JSON", "PROTOBUF": "PROTOBUF", "XML": "XML"}
"""Kinds of the registry by the names of the API."""
_MOST_KNOWN: Final = 10_000


class Schemas:
    """One caller's view of the registry."""

    def __init__(self, url: str, caller: Caller) -> None:
        self._client = registry_client(url, caller.security)
        self._decoder = RecordDecoder(self._client)
        self._codecs: dict[tuple[object, ...], tuple[RegisteredSchema, Codec]] = {}

    async def writer(
        self, spec: Mapping[str, JsonValue], topic: str, *, is_key: bool
    ) -> tuple[RegisteredSchema, Codec]:
        """The schema that a request names: by `schema_id`, by `schema` (registered under the subject), or by subject
        and version. Raises Problem."""
        key = (
            topic,
            is_key,
            *(spec.get(name) for name in ("type", "schema", "schema_id", "subject", "schema_version")),
        )
        try:
            known = self._codecs.get(key)
        except TypeError:
            raise Problem(422, 422, "the fields of a schema must be text or numbers") from None
        if known is None:
            known = await asyncio.to_thread(self._resolved, spec, topic, is_key)
            if len(self._codecs) >= _MOST_KNOWN:
                self._codecs.clear()
            self._codecs[key] = known
        return known

    def _resolved(self, spec: Mapping[str, JsonValue], topic: str, is_key: bool) -> tuple[RegisteredSchema, Codec]:
        subject = str(spec.get("subject") or f"{topic}-{'key' if is_key else 'value'}")
        try:
            if spec.get("schema_id") is not None:
                schema = self._client.schema_by_id(int(spec["schema_id"]))
            elif spec.get("schema") is not None:
                schema = self._client.register(
                    subject, str(spec["schema"]), kind=KINDS.get(str(spec.get("type") or "AVRO"), "AVRO")
                )
            elif spec.get("schema_version") is not None:
                schema = self._client.version(subject, int(spec["schema_version"]))
            else:
                schema = self._client.latest(subject)
            wanted = KINDS.get(str(spec.get("type") or ""))
            if wanted is not None and schema.kind != wanted:
                raise Problem(422, 42205, f"schema id {schema.id} has the type {schema.kind}, not {wanted}")
            conditions = Conditions.of(schema, RuleMode.WRITE)
            codec = codec_of(schema, self._client)
            return schema, codec if conditions is None else _ContractCodec(codec, conditions)
        except RegistryUnreachable as gone:
            raise Problem(503, 50302, str(gone)) from None
        except RegistryError as refused:
            status, code = (refused.status, 40101) if refused.status in (401, 403) else (422, 42205)
            raise Problem(status, code, f"subject {subject}: {refused}") from None
        except (SerializationError, ValueError, TypeError) as wrong:
            raise Problem(422, 42205, f"schema of subject {subject}: {wrong}") from None

    def decoded(self, topic: str, data: bytes, headers: JsonValue, *, is_key: bool) -> Decoded:
        """Blocking. A registry that cannot be reached is the error of the record."""
        try:
            return self._decoder.decode(topic, data, is_key=is_key, headers=headers)
        except RegistryUnreachable as gone:
            return Decoded(None, None, str(gone))

    async def close(self) -> None:
        self._codecs.clear()


class _ContractCodec:
    """A codec that writes only what the conditions of the data contract allow."""

    def __init__(self, codec: Codec, conditions: Conditions) -> None:
        self._codec = codec
        self._conditions = conditions

    @property
    def record_name(self) -> str | None:
        return self._codec.record_name

    def decode(self, payload: bytes, indexes: bytes | None = None) -> JsonValue:
        return self._codec.decode(payload, indexes)

    def encode(self, value: JsonValue) -> bytes:
        return checked_payload(self._codec, self._conditions, value)

    def plain(self, value: JsonValue) -> JsonValue:
        return self._codec.plain(value)

    def indexes(self) -> bytes:
        return self._codec.indexes()


def encoded(schema: RegisteredSchema, codec: Codec, value: JsonValue) -> bytes:
    """Raises Problem 42203 if the value does not fit the schema."""
    try:
        return prefixed(schema.id, codec.indexes() + codec.encode(value))
    except (SerializationError, ValueError, TypeError) as wrong:
        raise Problem(422, 42203, f"the value does not fit schema id {schema.id}: {wrong}") from None
