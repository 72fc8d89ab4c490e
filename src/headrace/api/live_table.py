"""A table of the newest records that updates itself, for notebooks.

table = orders.live()      # shows itself in the cell and updates until table.stop()
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from headrace.api.administration import html_table
from headrace.api.errors import ApiError
from headrace.api.record import Record

if TYPE_CHECKING:
    from headrace.api.topic import Topic

T = TypeVar("T")
_STOP_TIMEOUT_S: Final = 10.0


def records_html(topic: str, records: Iterable[Record[T]], note: str = "") -> str:
    """Records as a table, newest last."""
    rows: list[tuple[object, ...]] = []
    for record in records:
        shown = record.decoded if record.error is None else f"cannot be decoded: {record.error}"
        rows.append((record.partition, record.offset, record.timestamp.isoformat(), record.key, shown))
    return html_table(("partition", "offset", "time", "key", topic), rows) + (f"<p>{note}</p>" if note else "")


class LiveTable(Generic[T]):
    """Follows the topic in a thread. `show` gets the table as HTML whenever new records came, at most every `every_s`
    seconds; without it, the table shows itself in a notebook."""

    def __init__(self, topic: Topic[T], rows: int, every_s: float, show: Callable[[str], object] | None = None) -> None:
        self._topic = topic
        self._records: deque[Record[T]] = deque(topic.last(rows), maxlen=rows)
        self._every_s = every_s
        self._show = show
        self._count = 0
        self._error: str | None = None
        self._ended = threading.Event()
        self._changed = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="headrace live table", daemon=True)
        self._painter = threading.Thread(target=self._paint, name="headrace live display", daemon=True)
        self._follower.start()
        if show is not None:
            self._painter.start()

    @property
    def records(self) -> list[Record[T]]:
        """The records of the table, newest last."""
        return list(self._records)

    def stop(self) -> None:
        """Ends the updates. The table keeps its last rows."""
        self._ended.set()
        self._changed.set()
        self._follower.join(_STOP_TIMEOUT_S)

    def _follow(self) -> None:
        try:
            asyncio.run(self._collect())
        except ApiError as error:
            self._error = str(error)
            self._changed.set()

    async def _collect(self) -> None:
        known = {(record.partition, record.offset) for record in self._records}
        records = self._topic.follow(start="latest", until=self._ended.is_set)
        async for record in records:
            if (record.partition, record.offset) not in known:
                self._records.append(record)
                self._count += 1
                self._changed.set()

    def _paint(self) -> None:
        while not self._ended.is_set():
            self._changed.wait()
            self._changed.clear()
            if self._show is not None:
                self._show(self._repr_html_())
            self._ended.wait(self._every_s)

    def _repr_html_(self) -> str:
        note = self._error or ("stopped" if self._ended.is_set() else f"live: {self._count} new")
        return records_html(self._topic.name, self._records, note)

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found]

        handle = display(HTML(self._repr_html_()), display_id=True)
        self._show = lambda html: handle.update(HTML(html))
        if not self._painter.is_alive():
            self._painter.start()
