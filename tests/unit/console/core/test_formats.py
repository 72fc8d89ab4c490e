from __future__ import annotations

import pytest

from headrace.console.core import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (250_000, "250 KB"), (3e18, "3000.0 PB")],
)
def test_sizes(value: float | None, text: str) -> None:
    assert formats.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(-1, "unlimited"), (0, "0 ms"), (604_800_000, "7 d"), (5_400_000, "1.5 h"), (250, "250 ms")]
)
def test_durations(value: int, text: str) -> None:
    assert formats.duration(value) == text


def test_a_number_that_is_not_known_is_not_zero() -> None:
    assert formats.number(None) == formats.rate(None) == formats.size(None) == "–"
    assert formats.number(1234567) == "1\u2009234\u2009567"


@pytest.mark.parametrize("time_ms", [None, -1, 2**63 - 1])
def test_a_timestamp_that_is_no_time_is_a_dash(time_ms: int | None) -> None:
    assert formats.instant_text(time_ms) == "–"
