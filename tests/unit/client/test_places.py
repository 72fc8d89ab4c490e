"""Parsing of positions in a topic: offsets and times."""

from __future__ import annotations

import pytest

from headrace.client.places import Kind, Place, parse_place, parse_span_ms, time_text

NOW_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", Place(Kind.BEGINNING)),
        ("Latest", Place(Kind.END)),
        ("120", Place(Kind.OFFSET, 120)),
        ("-5", Place(Kind.BEFORE_END, 5)),
        ("@42", Place(Kind.TIME, 42)),
        ("now", Place(Kind.TIME, NOW_MS)),
        ("10 minutes ago", Place(Kind.TIME, NOW_MS - 600_000)),
        ("1h 30m", Place(Kind.TIME, NOW_MS - 5_400_000)),
        ("2 days and 1 hour ago", Place(Kind.TIME, NOW_MS - 176_400_000)),
        ("yesterday", Place(Kind.TIME, 1_699_833_600_000)),
        ("2023-11-14T22:13:20", Place(Kind.TIME, NOW_MS)),
        ("2023-11-14T23:13:20+01:00", Place(Kind.TIME, NOW_MS)),
    ],
)
def test_position_is_parsed(text: str, place: Place) -> None:
    assert parse_place(text, NOW_MS) == place


@pytest.mark.parametrize("text", ["", "soon", "10 parsecs ago", "2023-13-01", "1.5", "--5", "ago"])
def test_invalid_position_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ValueError, match="10 minutes ago"):
        parse_place(text, NOW_MS)


def test_durations_are_parsed() -> None:
    assert parse_span_ms("90s") == 90_000
    assert parse_span_ms("1.5 hours") == 5_400_000
    with pytest.raises(ValueError, match="length of time"):
        parse_span_ms("90")


def test_times_are_shown_in_utc() -> None:
    assert time_text(NOW_MS + 7) == "2023-11-14T22:13:20.007Z"
    assert time_text(-1) == "–"
