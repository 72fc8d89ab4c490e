"""A search over a topic in steps. A step scans for a second, or until it has a page of matches, and knows where it
stopped.

The place where it stopped is a link: it resumes the search, now or tomorrow, here or in another browser. The end of a
search is fixed when it starts, at the end offsets of that moment, so it always ends.

Plain text is looked for in the bytes of a whole batch first. Most batches have no match, and are passed over without
making a record of them. CEL expressions need every record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.fetch import FetchSettings, FetchStream
from headrace.console.protection import Rejected
from headrace.console.records.decoding import JSON, Decoding, Shown, ShownRecord
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue
from headrace.records.batch import BatchView
from headrace.records.builder import Record
from headrace.records.reader import iter_records, opened_section
from headrace.serialization.cel import LONGEST_FILTER, CelExpression, NotCel, TooCostly

STEP_S: Final = 1.0
STEP_MATCHES: Final = 50
_SETTINGS: Final = FetchSettings(max_bytes=4 << 20, max_wait_ms=100, stall_timeout_s=5, reuse_buffer=True)
PLACES: Final = ("anywhere", "key", "value", "header")


@dataclass(frozen=True, slots=True)
class Step:
    matches: tuple[ShownRecord, ...]
    positions: Mapping[int, int]
    scanned: int
    elapsed_s: float
    is_done: bool


class TextFilter:
    """Case-insensitive text in key, value or headers. Over bytes, unless masked fields must not be found."""

    def __init__(self, text: str, place: str, decoding: Decoding) -> None:
        # bytes.lower() changes ASCII letters only. It is much faster, so only other texts are compared as characters.
        self._fold = bytes.lower if text.isascii() else _folded
        self._needle = self._fold(text.encode())
        self._text = text.lower()
        self._place = place
        self._decoding = decoding

    def may_match(self, batch: BatchView) -> bool:
        if not self._decoding.shows_bytes:
            return True
        return self._needle in self._fold(opened_section(batch))

    def matches(self, partition: int, record: Record) -> bool:
        if not self._decoding.shows_bytes:
            return self._shown_matches(self._decoding.record(partition, record))
        place, needle, fold = self._place, self._needle, self._fold
        return (
            (place in ("anywhere", "key") and record.key is not None and needle in fold(record.key))
            or (place in ("anywhere", "value") and record.value is not None and needle in fold(record.value))
            or (
                place in ("anywhere", "header")
                and any(
                    needle in fold(name.encode()) or (value is not None and needle in fold(value))
                    for name, value in record.headers
                )
            )
        )

    def _shown_matches(self, shown: ShownRecord) -> bool:
        places = {"key": [shown.key.text], "value": [shown.value.text]}
        headers = [text for name, value in shown.headers for text in (name, value.text)]
        texts = {**places, "header": headers}.get(self._place) or [*places["key"], *places["value"], *headers]
        return any(self._text in text.lower() for text in texts)


def _folded(data: bytes) -> bytes:
    """Bytes without differences of case. Those that are no UTF-8 match nothing."""
    return data.decode(errors="replace").casefold().encode()


class CelFilter:
    """A CEL expression over `key`, `value`, `headers`, `partition`, `offset` and `timestamp` (milliseconds)."""

    def __init__(self, expression: str, decoding: Decoding) -> None:
        """Raises Rejected with the fault of the expression."""
        from celpy.adapter import json_to_cel  # half a second: imported when a reader uses it

        self._to_cel = json_to_cel
        self._decoding = decoding
        if len(expression) > LONGEST_FILTER:
            raise Rejected(
                400, f"the CEL expression has {len(expression)} characters; at most {LONGEST_FILTER} are allowed"
            )
        try:
            self._expression = CelExpression(expression)
        except NotCel as error:
            raise Rejected(422, f"the CEL expression cannot be read: {error}") from error

    def may_match(self, _: BatchView) -> bool:
        return True

    def matches(self, partition: int, record: Record) -> bool:
        """A record for which the expression has no value, for example without the field, does not match.
        Raises Rejected if the expression takes too many steps for the record."""
        shown = self._decoding.record(partition, record)
        facts: JsonValue = {
            "key": _cel_value(shown.key),
            "value": _cel_value(shown.value),
            "headers": {name: _cel_value(value) for name, value in shown.headers},
            "partition": partition,
            "offset": shown.offset,
            "timestamp": shown.timestamp_ms,
        }
        try:
            return self._expression.holds({name: self._to_cel(fact) for name, fact in facts.items()})
        except TooCostly as fault:
            raise Rejected(400, f"{fault} (partition {partition}, offset {shown.offset})") from None


def _cel_value(shown: Shown) -> JsonValue:
    return shown.value if shown.kind == JSON else None if shown.kind == "null" else shown.text


Filter = TextFilter | CelFilter


def search_step(
    client: BlockingClient,
    decoding: Decoding,
    wanted: Filter,
    positions: Mapping[int, int],
    until: Mapping[int, int],
    clock: Callable[[], float] = time.monotonic,
) -> Step:
    """Goes on at `positions`. Partitions are scanned one after the other."""
    began = clock()
    at = dict(positions)
    matches: list[ShownRecord] = []
    scanned = 0

    def is_over() -> bool:
        return len(matches) >= STEP_MATCHES or clock() - began >= STEP_S

    for partition in sorted(until):
        end = until[partition]
        if at.get(partition, 0) >= end:
            continue
        for chunk in FetchStream(client, (decoding.topic, partition), at.get(partition, 0), end, _SETTINGS):
            for batch in chunk.batches(at.get(partition, 0), end):
                start = at.get(partition, 0)
                at[partition] = batch.last_offset + 1
                if not wanted.may_match(batch):
                    scanned += batch.record_count
                else:
                    for record in iter_records(batch):
                        if not start <= record.offset < end:
                            continue
                        scanned += 1
                        if wanted.matches(partition, record):
                            matches.append(decoding.record(partition, record))
                        if is_over():
                            # Also within a batch: it may have thousands of records, and CEL may take long for each.
                            at[partition] = record.offset + 1
                            break
                if is_over():
                    return Step(tuple(matches), at, scanned, clock() - began, False)
            at[partition] = max(at.get(partition, 0), min(chunk.next_offset, end))
            if is_over():
                break
        if is_over():
            break
    is_done = all(at.get(partition, 0) >= end for partition, end in until.items())
    return Step(tuple(matches), at, scanned, clock() - began, is_done)
