"""Numbers, sizes, durations and times as text. `None` is a dash: a number that is not known is not 0."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "–"
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
# Thin space between groups of three digits: it cannot be read as a decimal mark in any language.
_THIN_SPACE: Final = "\u2009"
# Kafka's way to say "never" and "any": the largest number of 64 bits.
_NO_LIMIT: Final = 2**63 - 1
_LONGEST_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


def number(value: float | None) -> str:
    """`12 345`, with thin spaces."""
    if value is None:
        return UNKNOWN
    return f"{round(value):,}".replace(",", _THIN_SPACE)


def rate(value: float | None) -> str:
    """Records a second: one digit after the point below ten."""
    if value is None:
        return UNKNOWN
    if 0 < value < 0.05:
        return "< 0.1"
    return f"{value:.1f}" if 0 < value < 10 else number(value)


def amount(value: float | None, unit: str) -> str:
    """A number with its unit: sizes and durations in theirs, counts without a point."""
    if value is None:
        return UNKNOWN
    if unit == "bytes":
        return size(value)
    if unit == "ms":
        return duration(value)
    return f"{rate(value) if unit.endswith('/s') else number(value)} {unit}"


def size(value: float | None) -> str:
    """`1.4 MB` in powers of 1000."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in _UNITS[:-1]:
        if abs(amount) < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} {_UNITS[-1]}"


def duration(value_ms: float | None) -> str:
    """`7 d`, `1.5 h`, `250 ms`: one unit, because a table compares orders of magnitude."""
    if value_ms is None:
        return UNKNOWN
    if value_ms < 0:
        return "unlimited"
    for unit, length in _LONGEST_MS:
        if value_ms >= length:
            amount = value_ms / length
            return f"{amount:.0f} {unit}" if amount >= 10 or amount == int(amount) else f"{amount:.1f} {unit}"
    return "0 ms"


def setting(name: str, value: str | None) -> str:
    """What a number of a setting means, by the unit in its name: `7 d` for retention.ms=604800000. Empty if the number
    says it itself."""
    if value is None or not value.lstrip("-").isdigit():
        return ""
    amount = int(value)
    unit = name.rpartition(".")[2]
    if unit not in ("ms", "bytes") or amount < 1000:
        return "no limit" if unit in ("ms", "bytes") and amount == -1 else ""
    if amount >= _NO_LIMIT:
        return "no limit"
    return duration(amount) if unit == "ms" else size(amount)


def instant(time_ms: int | None) -> str:
    """ISO 8601 in UTC, with milliseconds; the browser shows it in the viewer's zone."""
    if time_ms is None or time_ms < 0:
        return ""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a producer may write any 64-bit number
        return ""


def instant_text(time_ms: int | None) -> str:
    """The same for people: `2026-01-31 12:00:00 UTC`."""
    found = instant(time_ms)
    return f"{found[:10]} {found[11:19]} UTC" if found else UNKNOWN
