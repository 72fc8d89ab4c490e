"""The terminal view: one table at a time, the table behind a row, keys, filter, order, refresh.

One task reads the cluster and fills the table; keys only change what the next filling shows. So a slow cluster never
blocks the keys.
"""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Input, Static

from headrace.cli.top.details import Detail, detail
from headrace.cli.top.snapshot import Snapshot, Watch
from headrace.cli.top.tables import (
    BAD,
    GOOD,
    QUIET,
    TABLES,
    WARN,
    Column,
    Row,
    fitted,
    ordered,
    painted,
    visible,
    widths,
)
from headrace.console.core import formats
from headrace.kernel.errors import Fault

# More rows than a person scrolls through; a filter finds the others.
_MOST_ROWS: Final = 1000
_KEYS: Final = (
    ("1 2 3 4", "brokers, topics, groups, pipelines"), ("tab", "the next table"), ("↑ ↓ j k", "choose a row"),
    ("enter", "open the row"), ("esc", "go back; end the filter"), ("/", "filter by name"),
    ("s S", "order by the next or the previous column"), ("r", "reverse the order"),
    ("i", "show or hide internal topics"), ("p", "pause"), ("?", "these keys"), ("q", "quit"),
)  # fmt: skip


class Order:
    """The order of one table."""

    def __init__(self, column: int, *, descending: bool) -> None:
        self.column = column
        self.descending = descending


class TopScreen(App[None]):
    CSS = """
    Screen { layout: vertical; }
    #head { height: 1; background: $primary-background; padding: 0 1; }
    #tabs { height: 1; padding: 0 1; }
    #note { height: 1; padding: 0 1; color: $text-muted; }
    #filter { height: 1; border: none; padding: 0 1; display: none; background: $boost; }
    #filter.shown { display: block; }
    #table { height: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
    #keys { height: 1; padding: 0 1; background: $primary-background; }
    #help { display: none; height: auto; padding: 0 1; background: $boost; }
    #help.shown { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(table.key, f"show({number})", table.title) for number, table in enumerate(TABLES)),
        Binding("tab", "next", "Next", priority=True), Binding("slash", "filter", "Filter"),
        Binding("escape", "leave", "Back", priority=True), Binding("s", "sort(1)", "Order"),
        Binding("S", "sort(-1)", "Order"), Binding("r", "reverse", "Reverse"), Binding("i", "internal", "Internal"),
        Binding("p", "pause", "Pause"), Binding("j", "down", "Down"), Binding("k", "up", "Up"),
        Binding("question_mark", "help", "Help"), Binding("q", "quit", "Quit"), Binding("ctrl+c", "quit", "Quit"),
    ]  # fmt: skip

    def __init__(self, watch: Watch, every_s: float) -> None:
        super().__init__()
        self.fault = ""
        self._watch = watch
        self._every_s = every_s
        self._snapshot: Snapshot | None = None
        self._detail: Detail | None = None
        self._opened: str | None = None
        self._at = 1
        self._orders = [Order(table.sort, descending=table.descending) for table in TABLES]
        self._filter = ""
        self._internal = False
        self._paused = False
        self._silent_since_s: float | None = None
        self._reader: asyncio.Task[None] | None = None
        self._shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="tabs")
        yield Static(id="note")
        yield Input(id="filter", placeholder="filter by name; enter keeps it, esc ends it")
        yield Static(id="help")
        yield DataTable(id="table", cursor_type="row", zebra_stripes=True)
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.theme = "textual-ansi" if self.no_color else "textual-dark"
        self.query_one("#head", Static).update(f"headrace top  connecting to {self._watch.bootstrap} …")
        lines = [Text.assemble((f"{key:<9}", "bold"), text) for key, text in _KEYS]
        self.query_one("#help", Static).update(Text("\n").join(lines))
        self.query_one(DataTable).focus()
        self._reader = asyncio.create_task(self._follow())

    async def on_unmount(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._watch.close()

    def on_resize(self) -> None:
        self._show()

    # Reading

    async def _follow(self) -> None:
        while True:
            if not self._paused:
                await self._read()
            await asyncio.sleep(self._every_s)

    async def _read(self) -> None:
        try:
            self._snapshot = await self._watch.read()
            self._silent_since_s = None
        except (Fault, OSError, TimeoutError) as fault:
            if self._snapshot is None:
                self.fault = getattr(fault, "message", "") or f"{self._watch.bootstrap} does not answer"
                self.exit()
                return
            self._silent_since_s = self._silent_since_s or time.monotonic()
        await self._read_detail()
        self._show()

    async def _read_detail(self) -> None:
        if self._opened is not None and self._snapshot is not None:
            self._detail = await detail(self._watch, self._snapshot, TABLES[self._at].title, self._opened)

    # Showing

    def _show(self) -> None:
        snapshot = self._snapshot
        if snapshot is None or not self.is_running:
            return
        self.query_one("#head", Static).update(self._head(snapshot))
        self.query_one("#keys", Static).update(
            Text("enter open  / filter  s order  r reverse  i internal  p pause  ? keys  q quit", no_wrap=True)
        )
        table = TABLES[self._at]
        if self._detail is not None and self._opened is not None:
            rows, columns, order = self._detail.rows, self._detail.columns, None
            note = self._detail.note
        else:
            rows, columns, order = table.rows(snapshot), table.columns, self._orders[self._at]
            if not self._internal:
                rows = [row for row in rows if not row.is_internal]
            rows = ordered(rows, order.column, descending=order.descending)
            note = ""
        chosen = [row for row in rows if self._filter.lower() in row.name.lower()]
        self.query_one("#tabs", Static).update(self._tabs())
        self.query_one("#note", Static).update(Text(self._note(note, len(chosen), len(rows)), no_wrap=True))
        self._fill(columns, chosen[:_MOST_ROWS], order)

    def _head(self, snapshot: Snapshot) -> Text:
        facts, samples = snapshot.facts, snapshot.samples
        up = sum(broker.up for broker in facts.brokers)
        total = samples.total_lag.points[-1][1] if samples.total_lag.points else None
        speed = samples.total.rate()
        parts: list[tuple[str, str]] = [
            (fitted(self._watch.bootstrap, 22), "bold"),
            (f"{up}/{len(facts.brokers)} up", GOOD if up == len(facts.brokers) else BAD),
            (f"{facts.partitions:,} part.", ""),
        ]
        if facts.offline:
            parts.append((f"{facts.offline:,} offline", BAD))
        if facts.under_replicated:
            parts.append((f"{facts.under_replicated:,} under-repl.", WARN))
        parts.append((f"{formats.UNKNOWN if speed is None else f'{speed:,.0f}'} rec/s", ""))
        parts.append((f"lag {formats.UNKNOWN if total is None else f'{total:,}'}", WARN if total else ""))
        if self._paused:
            parts.append(("paused", "reverse"))
        if self._silent_since_s is not None:
            parts.append((f"no answer for {time.monotonic() - self._silent_since_s:.0f} s", "bold white on red"))
        joined = Text("  ").join(Text(text, style=style) for text, style in parts)
        joined.no_wrap = True
        return joined

    def _tabs(self) -> Text:
        if self._opened is not None and self._detail is not None:
            return Text.assemble((f" {self._detail.title} ", "reverse"), ("   esc goes back", QUIET), no_wrap=True)
        return Text("  ").join(
            Text(f" {table.key} {table.title} ", style="reverse" if number == self._at else "")
            for number, table in enumerate(TABLES)
        )

    def _note(self, note: str, shown: int, total: int) -> str:
        filtered = f"{shown:,} of {total:,} match “{self._filter}”" if self._filter else ""
        left_out = f"the first {_MOST_ROWS:,} of {shown:,}: filter with /" if shown > _MOST_ROWS else ""
        empty = "" if total or note else "none yet"
        return "   ".join(filter(None, (note, filtered, left_out, empty)))

    def _fill(self, columns: tuple[Column, ...], rows: list[Row], order: Order | None) -> None:
        table: DataTable[Text] = self.query_one(DataTable)
        # One column of the terminal is the scroll bar.
        places = visible(columns, self.size.width)
        columns = tuple(columns[number] for number in places)
        sizes = widths(columns, self.size.width - 1)
        form = (columns, tuple(sizes), None if order is None else (order.column, order.descending))
        place, key = table.cursor_row, self._chosen()
        with self.batch_update():
            if form != self._shown:
                table.clear(columns=True)
                self._shown = form
                for number, (column, width) in enumerate(zip(columns, sizes, strict=True)):
                    is_ordered = order is not None and order.column == places[number]
                    mark = ("↓" if order is not None and order.descending else "↑") if is_ordered else ""
                    title = Text(column.title + mark, justify="right" if column.is_number else "left", no_wrap=True)
                    table.add_column(title, width=width)
            else:
                table.clear()
            for row in rows:
                cells = zip((row.cells[number] for number in places), columns, sizes, strict=True)
                table.add_row(*(painted(cell, column, width) for cell, column, width in cells), key=row.name)
            names = [row.name for row in rows]
            if names:
                table.move_cursor(row=names.index(key) if key in names else min(place, len(names) - 1))

    def _chosen(self) -> str | None:
        """The name of the row under the cursor."""
        table: DataTable[Text] = self.query_one(DataTable)
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    # Keys

    def action_show(self, number: int) -> None:
        self._at, self._opened, self._detail = number, None, None
        self.query_one(DataTable).move_cursor(row=0)
        self._show()

    def action_next(self) -> None:
        self.action_show((self._at + 1) % len(TABLES))

    def action_sort(self, step: int) -> None:
        order, columns = self._orders[self._at], TABLES[self._at].columns
        places = visible(columns, self.size.width)
        at = places.index(order.column) if order.column in places else 0
        order.column = places[(at + step) % len(places)]
        order.descending = columns[order.column].is_number
        self._show()

    def action_reverse(self) -> None:
        self._orders[self._at].descending = not self._orders[self._at].descending
        self._show()

    def action_internal(self) -> None:
        self._internal = not self._internal
        self._show()

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._show()

    def action_down(self) -> None:
        self.query_one(DataTable).action_cursor_down()

    def action_up(self) -> None:
        self.query_one(DataTable).action_cursor_up()

    def action_help(self) -> None:
        self.query_one("#help").toggle_class("shown")

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.add_class("shown")
        field.value = self._filter
        field.focus()

    def action_leave(self) -> None:
        field = self.query_one(Input)
        if self.query_one("#help").has_class("shown"):
            self.action_help()
        elif field.has_class("shown") or self._filter:
            self._filter = field.value = ""
            self._end_filter(field)
        else:
            self._opened, self._detail = None, None
        self._show()

    def _end_filter(self, field: Input) -> None:
        field.remove_class("shown")
        self.query_one(DataTable).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter = event.value
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._end_filter(event.input)

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if self._opened is None and event.row_key.value is not None:
            self._opened = event.row_key.value
            self._filter = ""
            await self._read_detail()
            self._show()
