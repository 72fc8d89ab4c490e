"""Columns as Kafka's tools print them: left-aligned, padded to a minimum width, separated by a space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(rows: Iterable[Sequence[object]], widths: Sequence[int], *, pad_last: bool = False) -> str:
    """Pads the cells of each row to `widths`; the last cell only where Kafka's tool does it."""
    lines = []
    for row in rows:
        cells = [f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)]
        if not pad_last:
            cells[-1] = str(row[-1])
        lines.append(" ".join(cells))
    return "\n".join(lines)


def fitted(rows: Sequence[Sequence[object]], least: Sequence[int]) -> list[int]:
    """Widths that fit every cell, at least `least`."""
    return [max(width, *(len(str(row[at])) for row in rows)) for at, width in enumerate(least)]
