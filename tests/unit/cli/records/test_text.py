"""Templates and filters: their results, and the errors of wrong ones."""

from __future__ import annotations

import pytest

from headrace.cli.records.filter import WrongFilter, compile_filter
from headrace.cli.records.text import Decoding, Seen, decode, document, template

RECORD = Seen(
    "orders",
    2,
    7,
    1_700_000_000_000,
    b"alice",
    b'{"amount": 12, "items": [{"id": "x"}], "vip": true}',
    (("h", b"1"), ("h", b"2")),
)
BINARY = Seen("orders", 0, 0, 0, None, b"\xff\x00", ())


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("%t %p %o %k %T\\n", "orders 2 7 alice 1700000000000\n"),
        ("%h %K %S%%", "h=1,h=2 5 51%"),
        ("{key}\\t{value.amount}", "alice\t12"),
        ("{value.items.0.id} {value.none} {header.h}", "x  2"),
        ("{{{offset}}}", "{7}"),
        ("{time}", "2023-11-14T22:13:20.000Z"),
    ],
)
def test_template_formats_a_record(text: str, printed: str) -> None:
    assert template(text)(RECORD) == printed


@pytest.mark.parametrize(
    ("text", "said"), [("ab%q", "%q at column 3"), ("{nope}", "{nope} at column 1"), ("a{b", "column 2")]
)
def test_wrong_template_is_reported_with_its_column(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        template(text)


def test_bytes_that_are_not_text_are_printed_and_kept_complete() -> None:
    assert decode(BINARY.value, Decoding.AUTO) == "0xff00"
    assert document(BINARY, Decoding.AUTO, Decoding.AUTO)["value_base64"] == "/wA="
    assert decode(None, Decoding.HEX) is None


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ('key == "alice"', True),
        ("key != 'alice'", False),
        ("value.amount > 5 and value.amount <= 12", True),
        ("value.amount == 12 and not partition == 1", True),
        ('header.h == "2" or offset < 0', True),
        ("header.none", False),
        ("header.none == null", True),
        ("value.vip == true", True),
        ('value contains "items"', True),
        ('key startswith "al" and key endswith "ce"', True),
        ("(key == 'bob' or size > 10) and topic == 'orders'", True),
        ("value.none > 1", False),
        ("timestamp >= 1700000000000", True),
        (r'key == "al\"ice"', False),
    ],
)
def test_filter_selects_records(text: str, chosen: bool) -> None:
    assert compile_filter(text)(RECORD) is chosen


@pytest.mark.parametrize(
    "text",
    [
        "",
        "key ==",
        "key == alice",
        "nope == 1",
        "(key",
        "key == 'a' key",
        "and",
        "key = 1",
        "__import__('os')",
        "(" * 99 + "key",
    ],
)
def test_wrong_filter_is_reported(text: str) -> None:
    with pytest.raises(WrongFilter, match="filter"):
        compile_filter(text)
