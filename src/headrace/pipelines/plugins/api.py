"""What the author of a connector writes: a class with `read(offset)` or `write(batch, ledger)`.

    class Numbers(Source):
        def columns(self) -> str:
            return "n bigint"

        def read(self, offset: Offset | None) -> Chunk:
            first = int(offset or 0)
            return Chunk([{"n": n} for n in range(first, first + 10)], first + 10)

A package offers it under the entry point group `headrace.connectors`, and a connector file names it: `from: {numbers:
{…}}`. The runner creates one object with the settings of the file and calls it from one thread.

Exactly once, source: the runner stores each chunk with its offset in a journal on disk, then calls `commit`, and only
then passes the rows on. After a restart it passes the last stored offset to `read`. A source that gives the rows after
an offset is therefore never asked for the same rows twice, and no row is lost.

Exactly once, sink: the runner skips a batch that `write` has finished. If the process dies inside `write`, the batch
comes again with the same rows in the same order and the same `ledger.key`. A sink has three ways to use that:
write the rows and `ledger` in one transaction of the target; write under a name made from `ledger.key`, so that a
repeat replaces the first attempt; or call `ledger.mark(rows)` after every part, and begin at `ledger.rows_done`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.plugins.columns import Value

# Anything that JSON has. Only the source reads it.
Offset: TypeAlias = Value
Row: TypeAlias = Mapping[str, Value]
# The settings of a connector file for this end: `settings.text("url")`, `settings.names("topics")`, `.is_on("tls")`.
Settings: TypeAlias = End


@dataclass(frozen=True)
class Chunk:
    """Rows, and the offset from which the next `read` continues."""

    rows: Sequence[Row]
    offset: Offset


class Source:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def columns(self) -> str:
        """The columns of the rows, such as "id bigint, text string". Types: string, binary, boolean, int, bigint,
        double, timestamp."""
        raise NotImplementedError

    def read(self, offset: Offset | None) -> Chunk:
        """The next rows after `offset`; none if there are no new rows. `offset` is None at the first call. Should
        return within a second and with at most some thousand rows."""
        raise NotImplementedError

    def commit(self, offset: Offset) -> None:
        """The rows up to this offset are on disk: the other system may forget them."""

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Batch:
    """The rows of one batch, in order. A repeated batch has the same."""

    columns: tuple[str, ...]
    _rows: Callable[[], Iterator[Row]]

    def __iter__(self) -> Iterator[Row]:
        return self._rows()

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Row]) -> Batch:
        return cls(tuple(columns), lambda: iter(rows))


class Ledger:
    """What is known about the current batch. `name` is the flow of one checkpoint, `batch` its number."""

    def __init__(self, name: str, batch: int, rows_done: int = 0) -> None:
        self.name, self.batch, self.rows_done = name, batch, rows_done

    @property
    def key(self) -> str:
        """A text that only this batch has."""
        return f"{self.name}-{self.batch}"

    def mark(self, rows: int) -> None:
        """The target has the first `rows` rows of the batch. A repeat of the batch gets the number as `rows_done`."""
        self.rows_done = rows


class Sink:
    # Whether rows with `_deleted` = true reach the sink. They have only `_key`, the key of their record.
    takes_deletes: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def write(self, batch: Batch, ledger: Ledger) -> None:
        """Writes all rows, or raises. The batch is finished when this returns."""
        raise NotImplementedError

    def close(self) -> None:
        pass
