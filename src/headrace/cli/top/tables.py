"""Columns and rows of each table. A number that is not known is a dash, never 0; unknown values come last in every
order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from rich.text import Text

from headrace.cli.top.snapshot import Snapshot
from headrace.console.core import formats
from headrace.kernel.dataclass import dataclass

GOOD, WARN, BAD, QUIET = "green", "yellow", "bold red", "dim"
UNKNOWN: Final = "–"
_WIDE: Final = 100
Sortable = str | float | None


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    width: int
    """0: the column takes the rest of the line."""
    is_number: bool = False
    is_extra: bool = False
    """Left out on a terminal of less than 100 columns, so that names have room."""


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    order: Sortable
    style: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    cells: tuple[Cell, ...]
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    key: str
    title: str
    columns: tuple[Column, ...]
    rows: Callable[[Snapshot], list[Row]]
    sort: int
    descending: bool


def count(value: float | None, style: str = "") -> Cell:
    return Cell(UNKNOWN if value is None else f"{round(value):,}", value, QUIET if value is None else style)


def rate(value: float | None) -> Cell:
    text = UNKNOWN if value is None else f"{value:.1f}" if 0 < value < 10 else f"{value:,.0f}"
    return Cell(text, value, QUIET if not value else "")


def name_cell(text: str, style: str = "bold") -> Cell:
    return Cell(text, text.lower(), style)


def state(text: str) -> Cell:
    styles = {
        "Stable": GOOD, "running": GOOD, "healthy": GOOD, "up": GOOD, "Empty": QUIET, "stopped": QUIET, "Dead": BAD,
        "failed": BAD, "silent": BAD, "offline": BAD, "down": BAD,
    }  # fmt: skip
    return Cell(text or "unknown", text.lower(), styles.get(text, WARN))


def lag(value: int | None) -> Cell:
    return count(value, GOOD if value == 0 else WARN if value is not None and value < 10_000 else BAD)


def size(value: int | None) -> Cell:
    return Cell(formats.size(value), value, QUIET if value is None else "")


def fitted(text: str, width: int) -> str:
    """The text in at most this many columns; what is cut is marked."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def painted(cell: Cell, column: Column, width: int) -> Text:
    return Text(
        fitted(cell.text, width), style=cell.style, justify="right" if column.is_number else "left", no_wrap=True
    )


def ordered(rows: Sequence[Row], column: int, *, descending: bool) -> list[Row]:
    known = [row for row in rows if row.cells[column].order is not None]
    by_name = sorted(known, key=lambda row: row.name)
    by_name.sort(key=lambda row: row.cells[column].order, reverse=descending)  # type: ignore[arg-type, return-value]
    return by_name + sorted((row for row in rows if row.cells[column].order is None), key=lambda row: row.name)


def visible(columns: Sequence[Column], total: int) -> list[int]:
    """Numbers of the columns that a terminal of this width shows."""
    return [number for number, column in enumerate(columns) if total >= _WIDE or not column.is_extra]


def widths(columns: Sequence[Column], total: int) -> list[int]:
    """Width of each column on a line of this width. Each cell has a space on both sides."""
    left = total - sum(column.width + 2 for column in columns)
    flexible = max(1, sum(not column.width for column in columns))
    return [column.width or max(8, left // flexible) for column in columns]


def _brokers(snapshot: Snapshot) -> list[Row]:
    found = []
    for broker in snapshot.facts.brokers:
        own = [one for one in snapshot.facts.directories if one.broker == broker.id]
        held = sum(one.held for one in own) if own else None
        used = [100 - 100 * one.free // one.total for one in own if one.total and one.free is not None]
        full = max(used) if used else None
        behind = broker.replicas - broker.in_sync
        found.append(
            Row(
                str(broker.id),
                (
                    Cell(str(broker.id), broker.id, "bold"), name_cell(broker.address, ""),
                    state("up" if broker.up else "down"),
                    Cell("controller" if broker.controller else "", "0" if broker.controller else "1", "cyan"),
                    count(broker.leads), count(broker.replicas), count(behind, BAD if behind else QUIET), size(held),
                    Cell(UNKNOWN if full is None else f"{full} %", full, BAD if full is not None and full > 85 else ""),
                ),
            )
        )  # fmt: skip
    return found


def _topics(snapshot: Snapshot) -> list[Row]:
    return [
        Row(
            topic.name,
            (
                name_cell(topic.name, QUIET if topic.internal else "bold"), count(len(topic.partitions)),
                count(topic.replicas), count(snapshot.records(topic.name)), size(topic.size),
                rate(snapshot.samples.rate_of(topic.name)), count(len(snapshot.readers.get(topic.name, ()))),
                state(topic.health.replace("under-replicated", "under-repl.")),
            ),
            topic.internal,
        )
        for topic in snapshot.facts.topics.values()
    ]  # fmt: skip


def _groups(snapshot: Snapshot) -> list[Row]:
    found = []
    for group in snapshot.facts.groups.values():
        facts = snapshot.groups[group.id]
        series = snapshot.samples.lag.get(group.id)
        lately = sparkline([value for _, value in series.points][-16:]) if series else ""
        found.append(
            Row(
                group.id,
                (
                    name_cell(group.id), Cell(group.type, group.type), state(group.state), count(facts.topics),
                    lag(facts.lag), Cell(lately, None),
                ),
            )
        )  # fmt: skip
    return found


def _flows(snapshot: Snapshot) -> list[Row]:
    now_ms = int(time.time() * 1000)
    found = []
    for flow in snapshot.flows.values():
        last = flow.last
        has_batch = last.batch_id >= 0
        found.append(
            Row(
                flow.name,
                (
                    name_cell(flow.name), state(flow.state(now_ms)), lag(last.lag if has_batch else None),
                    rate(last.input_rate if has_batch else None), rate(last.processed_rate if has_batch else None),
                    Cell(formats.duration(last.batch_ms if has_batch else None), last.batch_ms if has_batch else None),
                    count(last.restarts, BAD if last.restarts else QUIET),
                    Cell(formats.duration(now_ms - last.at_ms), now_ms - last.at_ms, QUIET),
                ),
            )
        )  # fmt: skip
    return found


def sparkline(values: Sequence[int]) -> str:
    """`▁▂█`, from zero to the largest value."""
    bars = "▁▂▃▄▅▆▇█"
    largest = max(values, default=0)
    return "".join(bars[round(value / largest * 7)] if largest else bars[0] for value in values)


_N = _X = True
TABLES: Final = (
    Table(
        "1", "Brokers",
        (
            Column("Id", 4, _N), Column("Address", 0), Column("State", 5), Column("Role", 10), Column("Leads", 6, _N),
            Column("Repl.", 6, _N, _X), Column("Behind", 6, _N), Column("Logs", 8, _N, _X), Column("Disk", 5, _N),
        ),
        _brokers, 0, False,
    ),
    Table(
        "2", "Topics",
        (
            Column("Topic", 0), Column("Part.", 5, _N), Column("Repl.", 5, _N, _X), Column("Records", 11, _N),
            Column("Size", 8, _N), Column("Rec/s", 7, _N), Column("Grps", 4, _N), Column("Health", 11),
        ),
        _topics, 5, True,
    ),
    Table(
        "3", "Groups",
        (
            Column("Group", 0), Column("Type", 8, is_extra=True), Column("State", 10), Column("Topics", 6, _N),
            Column("Lag", 11, _N), Column("Lag lately", 16),
        ),
        _groups, 4, True,
    ),
    Table(
        "4", "Pipelines",
        (
            Column("Flow", 0), Column("State", 10), Column("Lag", 9, _N), Column("In/s", 7, _N),
            Column("Done/s", 7, _N, _X), Column("Batch", 7, _N), Column("Rest.", 5, _N, _X), Column("Seen", 6, _N),
        ),
        _flows, 1, False,
    ),
)  # fmt: skip
