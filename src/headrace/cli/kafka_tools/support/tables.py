"""Columns as Kafka's tools print them: left-aligned, padded to a least width, a blank between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(rows: Iterable[Sequence[object]], widths: Sequence[int], *, pad_last: bool = False) -> str:
    """Each row with its cells padded to `widths`; the last one is padded only where Kafka's own tool does."""
    lines = []
    for row in rows:
        cells = [f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)]
        if not pad_last:
            cells[-1] = str(row[-1])
        lines.append(" ".join(cells))
    return "\n".join(lines)


def fitted(rows: Sequence[Sequence[object]], least: Sequence[int]) -> list[int]:
    """Widths that hold every cell, but not less than `least`."""
    return [max(width, *(len(str(row[at])) for row in rows)) for at, width in enumerate(least)]
