"""Rows without Spark, and the parts of a flow that read, change and write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from headrace.pipelines.errors import OptionError
from headrace.pipelines.plugins.columns import Column, Value
from headrace.pipelines.spark.running_batch import RunningBatch

# Values of the columns, and the hidden columns `_deleted`, `_key` and `_error`.
LiteRow: TypeAlias = dict[str, Value]
# The offset of a source as in Spark's checkpoint.
JsonOffset: TypeAlias = dict[str, Value]
# Reads the rows of one slot: one task of Spark.
SlotReader: TypeAlias = Callable[[], Iterator[LiteRow]]

DELETED = "_deleted"
KEY = "_key"
ERROR = "_error"


class LiteSource(Protocol):
    columns: tuple[Column, ...]

    def initial(self) -> JsonOffset: ...

    def latest(self, start: JsonOffset, until: JsonOffset | None) -> JsonOffset:
        """The end of the next batch, not after `until`; `start` if there is nothing new."""

    def end(self) -> JsonOffset | None:
        """Where a run over the existing rows ends. None: at the first time without new rows."""

    def slots(self, start: JsonOffset, end: JsonOffset, batch: RunningBatch) -> Sequence[SlotReader]:
        """The same slots as the tasks of Spark's reader."""

    def committed(self, end: JsonOffset) -> None:
        """The target has the rows up to here."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class LiteBatch:
    """A batch to write: `name` is the flow with the id of its checkpoint."""

    name: str
    query_id: str
    number: int
    columns: tuple[Column, ...]
    slots: Sequence[SlotReader]

    def rows(self) -> Iterator[LiteRow]:
        for read in self.slots:
            yield from read()


class LiteTarget(Protocol):
    def write(self, batch: LiteBatch) -> int:
        """Writes a batch once. Returns the number of rows, also if an earlier attempt has written them."""

    def close(self) -> None: ...


def visible(row: LiteRow) -> LiteRow:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def not_in_lite(place: str, what: str) -> OptionError:
    return OptionError(f"{place}: {what}, which needs Spark: run the connector without --lite")


def good_rows(rows: Iterable[LiteRow]) -> Iterator[LiteRow]:
    return (row for row in rows if row.get(ERROR) is None)
