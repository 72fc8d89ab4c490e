from __future__ import annotations

from headrace.console.core.listing import Wanted, listing

ROWS = [("beta", 2), ("alpha", None), ("gamma", 9), ("Delta", 5)]
COLUMNS = {"size": lambda row: row[1]}


def _names(**query: str) -> list[str]:
    return [row[0] for row in listing(ROWS, Wanted.of(query, "name"), COLUMNS, lambda row: row[0]).rows]


def test_rows_are_ordered_by_name_unless_the_address_says_otherwise() -> None:
    assert _names() == ["Delta", "alpha", "beta", "gamma"]
    assert _names(sort="no-such-column") == ["Delta", "alpha", "beta", "gamma"]


def test_an_unknown_value_comes_last_in_both_directions() -> None:
    assert _names(sort="size", order="asc") == ["beta", "Delta", "gamma", "alpha"]
    assert _names(sort="size", order="desc") == ["gamma", "Delta", "beta", "alpha"]


def test_the_filter_ignores_case() -> None:
    assert _names(q="TA") == ["Delta", "beta"]


def test_a_page_beyond_the_last_is_the_last() -> None:
    for page in ("0", "-3", "7", "x", "9" * 40):
        found = listing(list(range(120)), Wanted.of({"page": page}, "name"), {}, lambda n: f"{n:03}")
        assert 1 <= found.page <= 3 and found.rows
    last = listing(list(range(120)), Wanted.of({"page": "7"}, "name"), {}, lambda n: f"{n:03}")
    assert (last.page, last.first, last.last, last.total) == (3, 101, 120, 120)
