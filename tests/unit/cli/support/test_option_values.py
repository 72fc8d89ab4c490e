"""Option values converted without pydantic equal those of typer with pydantic."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer._adapters import build_adapter
from typer.models import OptionInfo

from headrace.cli.support.option_values import _NOT_PLAIN, plain


class Colour(StrEnum):
    red = "red"
    dark_blue = "dark-blue"


TEXTS = st.one_of(
    st.text(max_size=12),
    st.integers().map(str),
    st.floats(allow_nan=True).map(str),
    st.sampled_from(["", "+1", "-0", "1_000", " 1", "1.", ".5", "1e3", "0x1", "true", "red", "RED", "dark-blue", "٣"]),
)


@given(text=TEXTS, annotation=st.sampled_from([str, int, float, bool, Colour]))
def test_simple_value_equals_typers_value(text: str, annotation: Any) -> None:
    made = plain(annotation, OptionInfo(), text)
    if made is not _NOT_PLAIN:
        expected = build_adapter(annotation, OptionInfo()).validate_python(text)
        assert (type(made), made) == (type(expected), expected)
    made_list = plain(list[annotation], OptionInfo(), (text, text))
    assert made_list is _NOT_PLAIN if made is _NOT_PLAIN else made_list == [made, made]


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [(str, "a b", "a b"), (int, "-12", -12), (float, "2.50", 2.5), (Colour, "dark-blue", Colour.dark_blue)],
)
def test_common_types_are_converted_without_typer(annotation: Any, text: str, value: object) -> None:
    assert plain(annotation, OptionInfo(), text) == value


def test_out_of_range_values_and_custom_parsers_are_left_to_typer() -> None:
    assert [plain(int, OptionInfo(min=1, max=7), text) for text in ("1", "7")] == [1, 7]
    assert {plain(int, OptionInfo(min=1, max=7), text) for text in ("0", "8")} == {_NOT_PLAIN}
    assert plain(str, OptionInfo(parser=str.upper), "x") is _NOT_PLAIN
