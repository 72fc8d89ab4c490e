"""Output of commands: tables for people, one stable JSON or YAML document for programs.

table   boxes and colour in a terminal, plain aligned columns elsewhere
json    one document; a command that follows prints one object per line
yaml    the same document
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def show(
    rows: Sequence[Mapping[str, object]], form: Format, *, title: str | None = None, empty: str = "nothing to show"
) -> None:
    """Prints rows with the same keys. In a table the keys are headings."""
    if form is Format.JSON:
        print(json.dumps(list(rows), default=str, indent=2))
    elif form is Format.YAML:
        import yaml

        print(
            yaml.safe_dump(json.loads(json.dumps(list(rows), default=str)), sort_keys=False, allow_unicode=True), end=""
        )
    elif not rows:
        print(empty)
    else:
        _table(rows, title)


def show_one(document: Mapping[str, object], form: Format, *, title: str | None = None) -> None:
    """Prints one object with many fields."""
    if form is Format.TABLE:
        _table([{"": name, " ": value} for name, value in document.items()], title, headed=False)
    elif form is Format.JSON:
        print(json.dumps(document, default=str, indent=2))
    else:
        import yaml

        print(
            yaml.safe_dump(json.loads(json.dumps(document, default=str)), sort_keys=False, allow_unicode=True), end=""
        )


def show_line(document: Mapping[str, object]) -> None:
    """Prints one object of a stream."""
    print(json.dumps(document, default=str, separators=(",", ":")), flush=True)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return str(value)


def _table(rows: Sequence[Mapping[str, object]], title: str | None, *, headed: bool = True) -> None:
    headings = list(rows[0])
    if not sys.stdout.isatty():
        lines = [[_cell(row[name]) for name in headings] for row in rows]
        _plain_table(headings, lines, _numeric(rows), headed=headed)
        return
    _boxed(rows, title, headed)


def _boxed(rows: Sequence[Mapping[str, object]], title: str | None, headed: bool) -> None:
    """A table for a terminal. If the columns do not fit, each row is a paragraph, because split words are
    unreadable."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    table = rich_table(rows, title, headed=headed)
    unbounded = console.options.update(max_width=1 << 16)
    if not headed or Measurement.get(console, unbounded, table).maximum <= console.width:
        console.print(table)
        return
    width = max(len(name) for name in rows[0])
    for number, row in enumerate(rows):
        paragraph = (f"{name.replace('_', ' '):<{width}}  {_cell(value)}" for name, value in row.items())
        console.print(("\n" if number else "") + "\n".join(paragraph), markup=False, highlight=False, soft_wrap=True)


def _numeric(rows: Sequence[Mapping[str, object]]) -> set[str]:
    return {name for name in rows[0] if all(isinstance(row[name], int | float) or row[name] is None for row in rows)}


def rich_table(
    rows: Sequence[Mapping[str, object]], title: str | None = None, *, headed: bool = True, caption: str | None = None
) -> Table:
    """A table for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, show_header=headed, caption=caption)
    numeric = _numeric(rows) if rows else set()
    for name in rows[0] if rows else ():
        table.add_column(name.replace("_", " "), justify="right" if name in numeric else "left", overflow="fold")
    for row in rows:
        # Plain text, because a topic or a value may contain characters of rich's markup.
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    return table


def _plain_table(headings: list[str], cells: Iterable[list[str]], numeric: set[str], *, headed: bool) -> None:
    lines = [*([[name.replace("_", " ").upper() for name in headings]] if headed else []), *cells]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headings))]
    for line in lines:
        padded = [
            cell.rjust(width) if name in numeric else cell.ljust(width)
            for cell, width, name in zip(line, widths, headings, strict=True)
        ]
        print("  ".join(padded).rstrip())


def wrapped(text: str, indent: str = "") -> str:
    """Wraps text to the width of the terminal; one line in a pipe or a file."""
    if not sys.stdout.isatty():
        return indent + text
    return textwrap.fill(
        text, max(shutil.get_terminal_size().columns, 40), initial_indent=indent, subsequent_indent=indent,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip


def size_text(size_bytes: float) -> str:
    """1536 → 1.5 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
