"""Filter, order and pages of a table. The query string of a page holds all three, so that every view is a link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from headrace.kernel.dataclass import dataclass

Row = TypeVar("Row")
PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for."""

    text: str = ""
    sort: str = ""
    descending: bool = False
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str], sort: str, *, descending: bool = False) -> Wanted:
        """Reads the query string. `sort` and `descending` are the order of an address without one."""
        page = query.get("page", "1")
        named = query.get("sort")
        order = query.get("order")
        down = descending if named is None and order is None else order == "desc"
        return cls(
            query.get("q", "").strip(), named or sort, down, int(page) if page.isdecimal() and len(page) < 10 else 1
        )


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    rows: Sequence[Row]
    total: int
    page: int
    pages: int
    wanted: Wanted

    @property
    def first(self) -> int:
        """Number of the first shown row, from 1."""
        return (self.page - 1) * PAGE_ROWS + 1 if self.rows else 0

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.rows else 0


def listing(
    rows: Sequence[Row],
    wanted: Wanted,
    columns: Mapping[str, Callable[[Row], object]],
    name: Callable[[Row], str],
    per_page: int = PAGE_ROWS,
) -> Listing[Row]:
    """The page of rows whose name contains the text. An unknown column orders by name; None comes last."""
    text = wanted.text.lower()
    found = [row for row in rows if text in name(row).lower()] if text else list(rows)
    found.sort(key=name)
    column = columns.get(wanted.sort)
    if column is not None:
        known = [row for row in found if column(row) is not None]
        known.sort(key=lambda row: column(row), reverse=wanted.descending)  # type: ignore[arg-type, return-value]
        found = known + [row for row in found if column(row) is None]
    elif wanted.descending:
        found.reverse()
    pages = max(1, -(-len(found) // per_page))
    page = min(max(wanted.page, 1), pages)
    return Listing(found[(page - 1) * per_page : page * per_page], len(found), page, pages, wanted)
