"""Values of a topic as bytes: unchanged, as text, as JSON, or as Avro records of a schema registry.

bytes, str          unchanged, UTF-8
a record type       with a registry Avro or JSON with the schema of the type; without one JSON
"registry"          any subject of the registry: values are mappings
None                JSON of any shape
"""

from __future__ import annotations

import datetime
import decimal
import json
import typing
from collections.abc import Sequence
from typing import Final, Protocol

from headrace.api.derived_schema import avro_schema, json_schema
from headrace.api.errors import NoSchema, NotPossible, SchemaRefused, WrongValue
from headrace.api.value_types import built, is_record_type, plain
from headrace.serialization.errors import RegistryError, RegistryUnreachable, SerializationError
from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import AVRO, JSON

_KINDS: Final = {"avro": AVRO, "json": JSON}
Headers = Sequence[tuple[str, bytes | None]]


class ValueCodec(Protocol):
    def encode(self, value: object) -> bytes:
        """Raises WrongValue."""

    def decode(self, data: bytes, headers: Headers) -> object:
        """Raises WrongValue."""


class Unchanged:
    """bytes as they are."""

    def encode(self, value: object) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise WrongValue(f"{value!r} is {type(value).__name__}: this topic takes bytes")
        return bytes(value) if not isinstance(value, bytes) else value

    def decode(self, data: bytes, headers: Headers) -> object:
        return data


class Text:
    def encode(self, value: object) -> bytes:
        if not isinstance(value, str):
            raise WrongValue(f"{value!r} is {type(value).__name__}: this topic takes text")
        return value.encode()

    def decode(self, data: bytes, headers: Headers) -> object:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise WrongValue(f"it is no UTF-8 text: {error.reason}") from None


class Json:
    """JSON, of a record type if there is one."""

    def __init__(self, hint: type | None) -> None:
        self._hint = hint

    def encode(self, value: object) -> bytes:
        if self._hint is not None:
            _check_type(value, self._hint)
        try:
            return json.dumps(plain(value), default=_as_text, separators=(",", ":")).encode()
        except TypeError as error:
            raise WrongValue(f"{value!r} has no JSON form: {error}") from None

    def decode(self, data: bytes, headers: Headers) -> object:
        try:
            found = json.loads(data)
        except ValueError as error:
            raise WrongValue(f"it is no JSON: {error}") from None
        return found if self._hint is None else built(self._hint, found)


class Registered:
    """Records with the schema of a type, or with the latest schema of the subject (`hint` None)."""

    def __init__(self, client: RegistryClient, topic: str, hint: type | None, kind: str = AVRO) -> None:
        self._topic = topic
        self._hint = hint
        self._is_json = kind == JSON
        derive = json_schema if self._is_json else avro_schema
        self._encoder = RecordEncoder(client, kind, schema=None if hint is None else derive(hint), any_pattern=True)
        try:
            schema = self._encoder.schema_for(topic)
        except RegistryUnreachable:
            raise
        except RegistryError as error:
            name = "its latest schema" if hint is None else hint.__name__
            raise SchemaRefused(f"topic {topic}: the registry refuses {name}: {error}") from None
        self.client = client
        # Avro needs the schema of the writer to read the bytes; JSON documents name their fields themselves.
        self.reader = None if hint is None or self._is_json else schema
        """The schema of the type; None if each record is read by its own."""
        self._decoder = RecordDecoder(client, reader=self.reader, native=True)

    def encode(self, value: object) -> bytes:
        if self._hint is not None:
            _check_type(value, self._hint)
        try:
            return self._encoder.encode(self._topic, _json_values(plain(value)) if self._is_json else plain(value))
        except SerializationError as error:
            raise WrongValue(str(error)) from None

    def decode(self, data: bytes, headers: Headers) -> object:
        decoded = self._decoder.decode(self._topic, data, headers=headers)
        if decoded.error is not None:
            raise WrongValue(decoded.error)
        return decoded.value if self._hint is None else built(self._hint, decoded.value)


def codec_for(
    topic: str, hint: type | str | None, registry: RegistryClient | None, format_: str = "avro"
) -> ValueCodec:
    """`format_`: of the schema that is registered for a type. Raises NoSchema, SchemaRefused."""
    if format_ not in _KINDS:
        raise NotPossible(f'topic {topic}: format={format_!r}: choose "avro" or "json"')
    if hint == "registry":
        if registry is None:
            raise NoSchema(f"topic {topic}: connect(…, registry=URL) names the schema registry")
        return Registered(registry, topic, None)
    if hint is bytes:
        return Unchanged()
    if hint is str:
        return Text()
    if hint is None or hint is dict:
        return Json(None)
    if not isinstance(hint, type) or not is_record_type(hint):
        name = getattr(hint, "__name__", repr(hint))
        raise NoSchema(
            f"topic {topic}: {name} is no type of values; use a dataclass, a Pydantic model, a msgspec struct, a "
            'TypedDict, bytes, str, dict or "registry"'
        )
    return Json(hint) if registry is None else Registered(registry, topic, hint, _KINDS[format_])


def _check_type(value: object, hint: type) -> None:
    wanted = dict if typing.is_typeddict(hint) else hint
    if not isinstance(value, wanted):
        raise WrongValue(f"{value!r} is {type(value).__name__}: this topic takes {hint.__name__}")


def _json_values(value: object) -> object:
    """The value with what JSON has: times and decimals become text."""
    if isinstance(value, dict):
        return {name: _json_values(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_json_values(one) for one in value]
    return value if value is None or isinstance(value, str | int | float | bool) else _as_text(value)


def _as_text(value: object) -> str:
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
