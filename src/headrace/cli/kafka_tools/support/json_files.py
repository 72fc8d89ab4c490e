"""JSON files that tools take (offsets to delete, partitions to move), with errors that say where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.cli.kafka_tools.support.tool import ToolFailed


def read(path: str) -> Any:
    try:
        return json.loads(Path(path).read_text())
    except OSError as error:
        raise ToolFailed(f"cannot read {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ToolFailed(f"{path} line {error.lineno} column {error.colno}: {error.msg}") from error


def partitions(path: str, *fields: str) -> list[dict[str, Any]]:
    """The `partitions` list of a file; every entry must have `fields`."""
    document = read(path)
    entries = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ToolFailed(f'{path}: must be {{"version":1,"partitions":[…]}}')
    if document.get("version", 1) != 1:
        raise ToolFailed(f"Not supported version field value {document['version']}")
    for at, entry in enumerate(entries):
        if missing := [name for name in fields if not isinstance(entry, dict) or name not in entry]:
            raise ToolFailed(f"{path}: entry {at} of partitions lacks {', '.join(missing)}")
    return entries


def compact(document: Any) -> str:
    """One line without blanks, as Kafka's tools print JSON."""
    return json.dumps(document, separators=(",", ":"))
