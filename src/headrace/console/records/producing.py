"""One record from a form: text, JSON, bytes in hexadecimal, null, or encoded by the latest schema of the topic."""

from __future__ import annotations

import json
import time
from typing import Final

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.produce import write_records
from headrace.console.protection import Rejected
from headrace.kernel.ids import partition_for_key
from headrace.records.builder import Record
from headrace.serialization.errors import RegistryError, SerializationError
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.registry_client import RegistryClient

FORMS: Final = ("text", "json", "hex", "schema", "null")


def encoded(text: str, form: str, topic: str, registry: RegistryClient | None, *, is_key: bool) -> bytes | None:
    """Raises Rejected with the name of the field."""
    what = "key" if is_key else "value"
    if form == "null":
        return None
    if form == "text":
        return text.encode()
    if form == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise Rejected(
                422, f"the {what} is not hexadecimal: write two digits for each byte, such as 00 ff 4a"
            ) from None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Rejected(422, f"the {what} is not JSON: {error}") from None
    if form == "json":
        return text.encode()
    if form != "schema" or registry is None:
        raise Rejected(422, f"the {what} cannot be encoded as {form!r}")
    try:
        kind = registry.latest(f"{topic}-{what}").kind
        return RecordEncoder(registry, kind).encode(topic, value, is_key=is_key)
    except (RegistryError, SerializationError) as fault:
        raise Rejected(422, f"the {what} cannot be encoded by the schema of {topic}-{what}: {fault}") from None


def parse_headers(text: str) -> tuple[tuple[str, bytes | None], ...]:
    """One `name: value` a line. Raises Rejected."""
    found: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if line.strip():
            name, colon, value = line.partition(":")
            if not colon or not name.strip():
                raise Rejected(422, f"header {line!r}: must be name: value")
            found.append((name.strip(), value.strip().encode()))
    return tuple(found)


def send(client: BlockingClient, topic: str, partition: int | None, partitions: int, record: Record) -> int:
    """Writes the record, acknowledged by all in-sync replicas. Returns its partition: the given one, or that of its key
    as Kafka's own clients choose it."""
    if partition is None:
        partition = (
            int(time.time_ns()) % partitions if record.key is None else partition_for_key(record.key, partitions)
        )
    if not 0 <= partition < partitions:
        raise Rejected(422, f"partition {partition}: {topic} has partitions 0 to {partitions - 1}")
    write_records(client, (topic, partition), [record])
    return partition
