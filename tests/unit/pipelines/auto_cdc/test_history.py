"""What a row is after its changes, and which versions it had."""

from __future__ import annotations

import itertools

from headrace.pipelines.auto_cdc.history import DELETE, UPSERT, Change, Version, latest, versions


def put(sequence: int, **row: object) -> Change:
    return Change((1,), sequence, UPSERT, row)


def gone(sequence: int) -> Change:
    return Change((1,), sequence, DELETE, {})


def test_the_largest_sequence_decides_in_every_order() -> None:
    changes = [put(1, n="a"), put(3, n="c"), gone(2)]
    assert {latest(order).sequence for order in itertools.permutations(changes)} == {3}
    assert latest([*changes, gone(4)]).kind == DELETE


def test_late_change_splits_a_version() -> None:
    assert versions([put(1, n="a"), put(5, n="a")]) == [Version({"n": "a"}, 1, None)]
    # The change at 5 changed nothing when it came. Now it ends the late version.
    expected = [Version({"n": "a"}, 1, 3), Version({"n": "b"}, 3, 5), Version({"n": "a"}, 5, None)]
    for order in itertools.permutations([put(1, n="a"), put(5, n="a"), put(3, n="b")]):
        assert versions(order) == expected


def test_only_tracked_columns_begin_a_version() -> None:
    changes = [put(1, n="a", seen=1), put(2, n="a", seen=2), put(3, n="b", seen=2)]
    found = versions(changes, tracked=["n"])
    assert found == [Version({"n": "a", "seen": 2}, 1, 3), Version({"n": "b", "seen": 2}, 3, None)]


def test_truncate_ends_what_was_before_it() -> None:
    changes = [put(1, n="a"), put(9, n="b")]
    assert versions(changes, [5]) == [Version({"n": "a"}, 1, 5), Version({"n": "b"}, 9, None)]
    assert latest([put(1, n="a")], [5]).kind == DELETE
    assert latest([put(6, n="a")], [5]).kind == UPSERT
    assert versions([gone(3)]) == []
