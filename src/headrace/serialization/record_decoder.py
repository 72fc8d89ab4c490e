"""Decodes keys and values of records by the schema that each of them names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.kernel.dataclass import dataclass
from headrace.serialization.codecs import Codec, codec_of
from headrace.serialization.errors import NESTED, RegistryError, RegistryUnreachable, SerializationError
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.rules import Conditions, RuleMode
from headrace.serialization.schema import RegisteredSchema
from headrace.serialization.wire_format import framed


@dataclass(frozen=True, slots=True)
class Decoded:
    """`error` is None, or the reason why there is no value. A tombstone has neither value, schema nor error."""

    value: Any
    schema: RegisteredSchema | None
    error: str | None


class RecordDecoder:
    """Keeps a codec for each schema. `reader`: resolve Avro records to this schema. `native`: values are Python's
    own (datetime, Decimal, bytes) and not their JSON forms. A record that breaks a condition of its data contract has
    an error."""

    def __init__(self, client: RegistryClient, *, reader: RegisteredSchema | None = None, native: bool = False) -> None:
        self._client = client
        self._reader = reader
        self._native = native
        self._known: dict[int | str, tuple[RegisteredSchema, Codec, Conditions | None]] = {}

    def decode(
        self,
        topic: str,
        data: bytes | None,
        *,
        is_key: bool = False,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> Decoded:
        """Never raises for bad data. Raises RegistryUnreachable if the schema cannot be had now."""
        if data is None:
            return Decoded(None, None, None)
        schema = None
        try:
            found = framed(data, headers, is_key=is_key)
            schema, codec, conditions = self._codec(found.schema)
            value = codec.decode(found.payload, found.indexes)
            if conditions is not None:
                conditions.check(value)
            return Decoded(value if self._native else codec.plain(value), schema, None)
        except RegistryUnreachable:
            raise
        except (RegistryError, SerializationError, RecursionError) as fault:
            reason = NESTED if isinstance(fault, RecursionError) else fault
            return Decoded(None, schema, f"{'key' if is_key else 'value'} of topic {topic}: {reason}")

    def _codec(self, named: int | str) -> tuple[RegisteredSchema, Codec, Conditions | None]:
        known = self._known.get(named)
        if known is None:
            client = self._client
            schema = client.schema_by_id(named) if isinstance(named, int) else client.schema_by_guid(named)
            codec = codec_of(schema, client, reader=self._reader)
            known = self._known[named] = (schema, codec, Conditions.of(self._reader or schema, RuleMode.READ))
        return known
