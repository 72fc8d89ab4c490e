"""Reads the JSON files of tools (offsets to delete, partitions to move). Errors name the place in the file."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.cli.kafka_tools.support.tool import ToolFailed
from headrace.kernel.ids import TopicPartition

Entry = dict[str, object]


def read(path: str) -> object:
    try:
        document: object = json.loads(Path(path).read_text())
    except OSError as error:
        raise ToolFailed(f"cannot read {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ToolFailed(f"{path} line {error.lineno} column {error.colno}: {error.msg}") from error
    return document


def partitions(path: str, *fields: str) -> list[Entry]:
    """The `partitions` list of a file. Every entry must have `fields`."""
    document = read(path)
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise ToolFailed(f'{path}: must be {{"version":1,"partitions":[…]}}')
    if document.get("version", 1) != 1:
        raise ToolFailed(f"Not supported version field value {document['version']}")
    entries: list[Entry] = document["partitions"]
    for at, entry in enumerate(entries):
        if missing := [name for name in fields if not isinstance(entry, dict) or name not in entry]:
            raise ToolFailed(f"{path}: entry {at} of partitions lacks {', '.join(missing)}")
    return entries


def topic_partition(path: str, entry: Entry) -> TopicPartition:
    return TopicPartition(str(entry["topic"]), whole_number(path, "partition", entry["partition"]))


def whole_number(path: str, name: str, value: object) -> int:
    try:
        if isinstance(value, int | str):
            return int(value)
    except ValueError:
        pass
    raise ToolFailed(f"{path}: {name} must be a whole number, not {value!r}")


def compact(document: object) -> str:
    """One line without spaces, as Kafka's tools print JSON."""
    return json.dumps(document, separators=(",", ":"))
