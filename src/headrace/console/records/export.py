"""Many records as a download: NDJSON, one object a line, or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from headrace.client.blocking.client import BlockingClient
from headrace.console.core import formats
from headrace.console.records.decoding import Decoding, Shown, ShownRecord
from headrace.console.records.reading import Spans, read
from headrace.kernel.json_values import JsonValue

_COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def exported(client: BlockingClient, decoding: Decoding, spans: Spans, form: str, limit: int) -> Iterator[str]:
    """Lines of the file, partition by partition."""
    if form == "csv":
        yield _csv_line(_COLUMNS)
    count = 0
    for partition, (start, end) in spans.items():
        for record in read(client, decoding.topic, partition, start, end):
            if count >= limit:
                return
            count += 1
            shown = decoding.record(partition, record)
            yield _csv_row(shown) if form == "csv" else json.dumps(record_json(shown), ensure_ascii=False) + "\n"


def record_json(shown: ShownRecord) -> JsonValue:
    return {
        "partition": shown.partition,
        "offset": shown.offset,
        "timestamp": formats.instant(shown.timestamp_ms) or None,
        "key": _plain(shown.key),
        "value": _plain(shown.value),
        "headers": [{"name": name, "value": _plain(value)} for name, value in shown.headers],
    }


def _plain(shown: Shown) -> JsonValue:
    return shown.value


def _csv_row(shown: ShownRecord) -> str:
    headers = "; ".join(f"{name}={value.text}" for name, value in shown.headers)
    key = "" if shown.key.kind == "null" else shown.key.text
    value = "" if shown.value.kind == "null" else shown.value.text
    return _csv_line(
        (
            str(shown.partition),
            str(shown.offset),
            formats.instant(shown.timestamp_ms),
            *map(_harmless, (key, value, headers)),
        )
    )


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _csv_line(cells: tuple[str, ...]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()
