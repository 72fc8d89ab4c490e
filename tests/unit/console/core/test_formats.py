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


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("retention.ms", "-1", "no limit"),
        ("flush.ms", "9223372036854775807", "no limit"),
        ("retention.bytes", "-1", "no limit"),
        ("segment.bytes", "1073741824", "1.1 GB"),
        ("local.retention.ms", "-2", ""),
        ("segment.jitter.ms", "0", ""),
        ("min.insync.replicas", "20000", ""),
        ("cleanup.policy", "delete", ""),
        ("retention.ms", None, ""),
    ],
)
def test_the_number_of_a_setting_in_words(name: str, value: str | None, expected: str) -> None:
    assert formats.setting(name, value) == expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (4.0, "rows", "4 rows"),
        (125_100, "bytes", "125 KB"),
        (255, "ms", "255 ms"),
        (2.5, "records/s", "2.5 records/s"),
        (None, "rows", "–"),
    ],
)
def test_a_number_has_the_unit_of_its_chart(value: float | None, unit: str, expected: str) -> None:
    assert formats.amount(value, unit) == expected
