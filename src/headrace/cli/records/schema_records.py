"""Records that a command encodes and decodes by the schemas of a registry. Values are JSON on the user's side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.kafka_tools.support.tool import ToolFailed as Failed
from headrace.cli.records.lines import Incoming
from headrace.cli.records.text import Headers, Seen
from headrace.cli.support.client_settings import client_security
from headrace.cli.support.registry_address import LOCAL_REGISTRY, is_on_this_machine
from headrace.serialization.errors import RegistryError, SerializationError
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.registry_login import registry_client
from headrace.serialization.subjects import SubjectStrategy, subject_of
from headrace.serialization.wire_format import header_name

if TYPE_CHECKING:
    from headrace.serialization.record_encoder import RecordEncoder

LATEST: Final = "latest"
SCHEMA_TYPES: Final = {".avsc": "AVRO", ".avro": "AVRO", ".json": "JSON", ".proto": "PROTOBUF", ".xsd": "XML"}


def registry_of(url: str, where: str | None) -> RegistryClient:
    """The registry, with the login that the command has for the brokers (`where`: their address or context)."""
    try:
        return registry_client(url, client_security(where))
    except ValueError as error:
        raise Failed(str(error)) from None


def encoder_of(
    client: RegistryClient,
    topic: str,
    schema: str,
    strategy: str,
    *,
    is_key: bool,
    message: str | None = None,
    option: str = "--schema",
) -> RecordEncoder:
    """`schema` is a file, or `latest`: the latest version of the subject."""
    from headrace.serialization.record_encoder import RecordEncoder

    try:
        chosen = SubjectStrategy.parse(strategy)
        if schema == LATEST:
            if chosen is not SubjectStrategy.TOPIC and message is None:
                raise Failed(f"{option} latest with --strategy {strategy}: name the record with --record")
            kind = client.latest(subject_of(topic, chosen, message, is_key=is_key)).kind
            return RecordEncoder(client, kind, chosen, message=message, any_pattern=True)
        file = Path(schema)
        if file.suffix.lower() not in SCHEMA_TYPES:
            raise Failed(f"{option} {schema}: must be a file {', '.join(SCHEMA_TYPES)}, or latest")
        kind = SCHEMA_TYPES[file.suffix.lower()]
        return RecordEncoder(client, kind, chosen, schema=file.read_text(), message=message, any_pattern=True)
    except OSError as error:
        raise Failed(f"{option} {schema}: {error.strerror}") from None
    except (RegistryError, SerializationError) as error:
        raise Failed(f"{option} {schema}: {error}") from None


class RecordsEncoding:
    """Encodes what the encoders are given for; other parts stay as they are."""

    def __init__(
        self, topic: str, key: RecordEncoder | None, value: RecordEncoder | None, *, in_header: bool = False
    ) -> None:
        """`in_header`: a header names the schema, and the data has no prefix."""
        self._topic = topic
        self._key = key
        self._value = value
        self._in_header = in_header

    def encoded(self, record: Incoming) -> Incoming:
        """Raises Failed if a key or value is not JSON, or does not fit its schema."""
        key, key_headers = self._part(self._key, record.key, is_key=True)
        value, value_headers = self._part(self._value, record.value, is_key=False)
        return replace(record, key=key, value=value, headers=(*record.headers, *key_headers, *value_headers))

    def _part(
        self, encoder: RecordEncoder | None, data: bytes | None, *, is_key: bool
    ) -> tuple[bytes | None, tuple[tuple[str, bytes], ...]]:
        """The data, and the header that names its schema if there is one."""
        if encoder is None or data is None:
            return data, ()
        part = "key" if is_key else "value"
        try:
            value = json.loads(data)
            if not self._in_header:
                return encoder.encode(self._topic, value, is_key=is_key), ()
            found = encoder.encode_with_header(self._topic, value, is_key=is_key)
            assert found.header is not None
            return found.data, (found.header,)
        except (SerializationError, RegistryError) as error:
            raise Failed(f"{part} {_short(data)}: {error}") from None
        except ValueError as error:
            raise Failed(f"{part} {_short(data)} is not JSON: {error}") from None


def _short(data: bytes) -> str:
    text = data.decode(errors="replace")
    return text if len(text) <= 80 else f"{text[:80]}…"


class RecordsDecoding:
    """Decodes keys and values that name a schema (by prefix or header) to JSON. Others stay as they are."""

    def __init__(self, client: RegistryClient) -> None:
        from headrace.serialization.record_decoder import RecordDecoder

        self._decoder = RecordDecoder(client)

    def decoded(self, record: Seen) -> Seen:
        key, key_error = self.part(record.topic, record.key, record.headers, is_key=True)
        value, value_error = self.part(record.topic, record.value, record.headers, is_key=False)
        return replace(
            record,
            key=record.key if key is None else key,
            value=record.value if value is None else value,
            is_key_json=key is not None,
            is_value_json=value is not None,
            error="; ".join(each for each in (key_error, value_error) if each) or None,
        )

    def part(
        self, topic: str, data: bytes | None, headers: Headers, *, is_key: bool
    ) -> tuple[bytes | None, str | None]:
        """(JSON text, None), or (None, the reason why there is none); (None, None) if it names no schema."""
        if data is None or not _names_schema(data, headers, is_key=is_key):
            return None, None
        try:
            found = self._decoder.decode(topic, data, is_key=is_key, headers=headers)
        except RegistryError as error:
            return None, str(error)
        return (None, found.error) if found.error is not None else (_json(found.value), None)


def local_decoding(bootstrap: str, where: str | None, registry: str = LOCAL_REGISTRY) -> RecordsDecoding | None:
    """Decoding by the registry on this machine, if the brokers are here, too, and it answers."""
    if not is_on_this_machine(bootstrap):
        return None
    client = registry_of(registry, where)
    try:
        client.call("GET", "/schemas/types")
    except RegistryError:
        return None
    return RecordsDecoding(client)


def names_schema(record: Seen) -> bool:
    """Whether the key or the value names a schema. A number of eight bytes begins with zeros and names none."""
    return any(
        data is not None and _names_schema(data, record.headers, is_key=is_key) and data[:5] != bytes(5)
        for data, is_key in ((record.key, True), (record.value, False))
    )


def _names_schema(data: bytes, headers: Headers, *, is_key: bool) -> bool:
    wanted = header_name(is_key=is_key)
    return (data[:1] == b"\x00" and len(data) >= 5) or any(name == wanted and value for name, value in headers)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
