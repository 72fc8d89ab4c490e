"""Parses positions in a topic: offsets, times, "10 minutes ago".

    beginning | earliest      end | latest
    120                       the offset 120
    -5                        five before the end
    @1700000000000            milliseconds since 1970
    2026-01-31T12:00          a time (UTC without a zone)
    10 minutes ago, 2h, yesterday, now

Pure: the current time is an argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

_UNITS: Final = {
    "ms": 1, "s": 1000, "sec": 1000, "second": 1000, "m": 60_000, "min": 60_000, "minute": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000, "w": 604_800_000, "week": 604_800_000,
}  # fmt: skip
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


class Kind(Enum):
    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    BEFORE_END = "before end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Place:
    kind: Kind
    value: int = 0  # an offset, a number of records before the end, or milliseconds since 1970


def parse_span_ms(text: str) -> int:
    """`90s`, `1h 30m`, `10 minutes`, in milliseconds. Raises ValueError."""
    left = text.strip().lower().replace(",", " ")
    total = 0.0
    at = 0
    for found in _SPAN.finditer(left):
        unit = found[2] if found[2] in _UNITS else found[2].removesuffix("s")
        if left[at : found.start()].strip() not in ("", "and") or unit not in _UNITS:
            break
        total += float(found[1]) * _UNITS[unit]
        at = found.end()
    if at == 0 or left[at:].strip():
        raise ValueError(f"{text!r}: must be a length of time as 90s, 10 minutes, 1h 30m or 2 days")
    return int(total)


def parse_place(text: str, now_ms: int) -> Place:
    """Raises ValueError, whose message lists the accepted forms."""
    word = text.strip().lower()
    if word in ("beginning", "earliest", "start"):
        return Place(Kind.BEGINNING)
    if word in ("end", "latest"):
        return Place(Kind.END)
    if re.fullmatch(r"\d+", word):
        return Place(Kind.OFFSET, int(word))
    if re.fullmatch(r"-\d+", word):
        return Place(Kind.BEFORE_END, int(word[1:]))
    time_ms = _time(word, text.strip(), now_ms)
    if time_ms is None:
        raise ValueError(
            f"{text!r}: must be beginning, end, an offset as 120, -5 for five before the end, a time as "
            "2026-01-31T12:00 or @1700000000000, or a while ago as '10 minutes ago'"
        )
    return Place(Kind.TIME, time_ms)


def _time(word: str, original: str, now_ms: int) -> int | None:
    if word == "now":
        return now_ms
    if re.fullmatch(r"@\d+", word):
        return int(word[1:])
    midnight = datetime.fromtimestamp(now_ms / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("today", "yesterday"):
        return int((midnight - timedelta(days=word == "yesterday")).timestamp() * 1000)
    try:
        return now_ms - parse_span_ms(word.removesuffix("ago"))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(original)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def time_text(timestamp_ms: int) -> str:
    """ISO-8601 in UTC with milliseconds; a dash for a record without a timestamp."""
    if timestamp_ms < 0:
        return "–"
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03}Z"
