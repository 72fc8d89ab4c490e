"""The console producer and consumer for records with schemas: kafka-avro-console-producer and the like.

They are Kafka's console tools with further properties of Confluent's: `schema.registry.url`, `value.schema`,
`value.schema.file`, `value.schema.id`, `value.schema.id.serializer` (where the record names its schema), the same for
keys, `value.subject.name.strategy`, `auto.register.schemas`, `basic.auth.user.info`, and `print.schema.ids` of the
consumer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli.kafka_tools import console_consumer, console_producer
from headrace.cli.kafka_tools.support.formatters import CannotFormat, Shown
from headrace.cli.kafka_tools.support.line_reader import Line
from headrace.cli.kafka_tools.support.options import Arguments, UsageError
from headrace.cli.kafka_tools.support.tool import ToolFailed, guarded
from headrace.config.keys.headrace import SUBJECT_STRATEGIES
from headrace.serialization.errors import RegistryError, SerializationError
from headrace.serialization.registry_client import RegistryClient

if TYPE_CHECKING:
    from headrace.serialization.record_encoder import RecordEncoder

_LOCAL: Final = "http://localhost:8081"


def produce(kind: str) -> int:
    """`kind`: AVRO, JSON or PROTOBUF."""

    def run(arguments: Arguments) -> int:
        return console_producer.produce_lines(arguments, _encoding(arguments, kind))

    about = f"Read lines with JSON from standard input and write them to a topic, encoded by a schema ({kind})."
    return guarded(about, console_producer.OPTIONS, run, check=console_producer.check)


def consume(kind: str) -> int:
    def run(arguments: Arguments) -> int:
        return console_consumer.print_records(arguments, _decoding(arguments))

    about = f"Read records of topics, decode them by their schemas ({kind} and others) and print them as JSON."
    return guarded(about, console_consumer.OPTIONS, run, check=console_consumer.check)


def _client(properties: Mapping[str, str]) -> RegistryClient:
    user, _, password = properties.get("basic.auth.user.info", "").partition(":")
    url = properties.get("schema.registry.url", _LOCAL).split(",")[0].strip()
    try:
        return RegistryClient(url, user=user or None, password=password or None)
    except ValueError as error:
        raise UsageError(f"schema.registry.url: {error}") from None


def _encoding(arguments: Arguments, kind: str) -> Callable[[Line], Line]:
    properties = console_producer.reader_properties(arguments, warns=False)
    client, topic = _client(properties), str(arguments["topic"])
    value = _encoder(client, properties, "value", kind)
    if value is None:
        raise UsageError("value.schema, value.schema.file or value.schema.id must be given as a --property")
    key = _encoder(client, properties, "key", kind)
    key_in_header, value_in_header = (_names_in_header(properties, part) for part in ("key", "value"))

    def encode(line: Line) -> Line:
        key_data, key_headers = _encoded(key, topic, line.key, is_key=True, in_header=key_in_header)
        data, headers = _encoded(value, topic, line.value, is_key=False, in_header=value_in_header)
        return replace(line, key=key_data, value=data, headers=(*line.headers, *key_headers, *headers))

    return encode


def _names_in_header(properties: Mapping[str, str], part: str) -> bool:
    """Whether a header names the schema, and not a prefix of the data. Confluent's classes, by their last names."""
    name = properties.get(f"{part}.schema.id.serializer", "PrefixSchemaIdSerializer")
    simple = name.rpartition(".")[2]
    if simple not in ("PrefixSchemaIdSerializer", "HeaderSchemaIdSerializer"):
        raise UsageError(
            f"{part}.schema.id.serializer={name}: must be PrefixSchemaIdSerializer or HeaderSchemaIdSerializer"
        )
    return simple == "HeaderSchemaIdSerializer"


def _encoder(client: RegistryClient, properties: Mapping[str, str], part: str, kind: str) -> RecordEncoder | None:
    """None for keys without a schema: they are text."""
    from headrace.serialization.record_encoder import RecordEncoder

    strategy = SUBJECT_STRATEGIES.get(properties.get(f"{part}.subject.name.strategy", "topic"))
    if strategy is None:
        raise UsageError(f"{part}.subject.name.strategy: must be one of {', '.join(SUBJECT_STRATEGIES)}")
    text = properties.get(f"{part}.schema")
    try:
        if f"{part}.schema.file" in properties:
            text = Path(properties[f"{part}.schema.file"]).read_text()
        elif f"{part}.schema.id" in properties:
            found = client.schema_by_id(int(properties[f"{part}.schema.id"]))
            text, kind = found.text, found.kind
    except OSError as error:
        raise ToolFailed(f"{part}.schema.file {error.filename}: {error.strerror}") from None
    except (RegistryError, ValueError) as error:
        raise ToolFailed(f"{part}.schema.id: {error}") from None
    if text is None:
        return None
    registers = properties.get("auto.register.schemas", "true").strip().lower() != "false"
    return RecordEncoder(client, kind, strategy, schema=text, register=registers, any_pattern=True)


def _encoded(
    encoder: RecordEncoder | None, topic: str, data: bytes | None, *, is_key: bool, in_header: bool
) -> tuple[bytes | None, list[tuple[str, bytes]]]:
    """The data, and the header that names its schema if there is one."""
    if encoder is None or data is None:
        return data, []
    part = "key" if is_key else "value"
    try:
        if not in_header:
            return encoder.encode(topic, json.loads(data), is_key=is_key), []
        found = encoder.encode_with_header(topic, json.loads(data), is_key=is_key)
        assert found.header is not None, "the header form has one"
        return found.data, [found.header]
    except (RegistryError, SerializationError) as error:
        raise ToolFailed(f"{part} {data.decode(errors='replace')[:80]}: {error}") from None
    except ValueError as error:
        raise ToolFailed(f"{part} {data.decode(errors='replace')[:80]} is not JSON: {error}") from None


def _decoding(arguments: Arguments) -> Callable[[Shown], Shown]:
    from headrace.serialization.record_decoder import RecordDecoder

    properties = console_consumer.formatter_properties(arguments, warns=False)
    decoder = RecordDecoder(_client(properties))
    shows_ids = properties.get("print.schema.ids", "false").strip().lower() == "true"

    def part(record: Shown, data: bytes | None, *, is_key: bool) -> bytes | None:
        if data is None or properties.get("key.deserializer" if is_key else "value.deserializer"):
            return data
        try:
            found = decoder.decode(record.topic, data, is_key=is_key, headers=record.headers)
        except RegistryError as error:
            raise ToolFailed(str(error)) from None
        if found.error is not None:
            if is_key:
                return data  # keys are often text
            raise CannotFormat(found.error)
        text = json.dumps(found.value, ensure_ascii=False, separators=(",", ":"))
        suffix = f"\t{found.schema.id}" if shows_ids and found.schema is not None else ""
        return (text + suffix).encode()

    def decode(record: Shown) -> Shown:
        return replace(
            record, key=part(record, record.key, is_key=True), value=part(record, record.value, is_key=False)
        )

    return decode
