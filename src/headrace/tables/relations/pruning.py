"""The partitions, offsets and times that a filter can match.

DuckDB passes the filter of a scan as an Arrow expression, which has no public structure. Arrow itself knows whether an
expression contradicts a fact: it drops the files of a dataset whose partition expression contradicts the filter. So
`Filter.excludes(fact)` asks Arrow about a dataset with one imaginary file. A binary search over such questions finds
the first and last offset that the filter can match. The result is right for every expression: if Arrow cannot decide,
the range stays as it is, and the rows are filtered after the fetch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

_POSITIONS: Final = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))]
)
# No timestamp of a record is later than the end of the year 9999.
_LATEST_MS: Final = 253_402_300_799_999


class Filter:
    """The condition that DuckDB wants the rows of a scan to meet; None if there is none. `prefix` stands before the
    names of the columns partition, offset and timestamp."""

    def __init__(self, expression: pc.Expression | None, schema: pa.Schema = _POSITIONS, prefix: str = "") -> None:
        self.expression, self._prefix = expression, prefix
        self._schema = schema
        self._format, self._files = ds.ParquetFileFormat(), LocalFileSystem()

    def excludes(self, fact: pc.Expression) -> bool:
        """Whether no row for which the fact is true can match."""
        if self.expression is None:
            return False
        imaginary = self._format.make_fragment("rows", self._files, partition_expression=fact)
        dataset = ds.FileSystemDataset([imaginary], self._schema, self._format, self._files)
        return not any(True for _ in dataset.get_fragments(self.expression))

    def offsets(self, partition: int, first: int, end: int) -> tuple[int, int]:
        """The part of [first, end) that can match in this partition; an empty range if nothing can."""
        # Arrow does not know that offsets are whole numbers: "up to 9" excludes more than "below 10".
        here = pc.field(f"{self._prefix}partition") == pa.scalar(partition, pa.int32())
        offset = pc.field(f"{self._prefix}offset")
        if self.expression is None or first >= end:
            return first, end
        if self.excludes(here & (offset >= first) & (offset <= end - 1)):
            return first, first
        start = _last_true(first, end, lambda at: self.excludes(here & (offset >= first) & (offset <= at - 1)))
        stop = _first_true(start, end, lambda at: self.excludes(here & (offset >= at) & (offset <= end - 1)))
        return start, stop

    def earliest_time_ms(self) -> int | None:
        """No record with an earlier timestamp can match; None without such a bound."""
        timestamp = pc.field(f"{self._prefix}timestamp")

        def earlier_cannot_match(at_ms: int) -> bool:
            return self.excludes(timestamp < pa.scalar(at_ms * 1000, pa.timestamp("us", tz="UTC")))

        if self.expression is None or not earlier_cannot_match(1):
            return None
        return _last_true(1, _LATEST_MS, earlier_cannot_match)


def _last_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The largest number in [low, high] for which `holds`, which is true up to some number and false after it."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _first_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest number in [low, high] for which `holds`, which is false up to some number and true after it."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
