"""CEL expressions compile whatever else in the process uses the library, and from several threads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import celpy
import pytest
from celpy.adapter import json_to_cel
from celpy.celparser import CELParser
from celpy.celtypes import IntType, ListType

from headrace.serialization.cel import CelExpression, NotCel, NoValue, TooCostly
from tests.support.clock import Stopwatch

ORDER = {"value": json_to_cel({"n": 2, "state": "open"})}


def test_an_expression_compiles_after_another_user_made_the_parser() -> None:
    """The first user of the library decides which trees its parser builds. The compiler needs its own."""
    CELParser.CEL_PARSER = None
    interpreted = celpy.Environment()
    interpreted.program(interpreted.compile("1 < 2"))
    theirs = CELParser.CEL_PARSER

    assert CelExpression('value.n > 1 && value.state == "open"').holds(ORDER)
    assert CELParser.CEL_PARSER is theirs


def test_threads_compile_and_evaluate_at_the_same_time() -> None:
    def one(n: int) -> bool:
        return CelExpression(f"value.n + {n} == {n + 2}").holds(ORDER)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(one, range(40)))


def test_an_expression_without_a_value_does_not_hold() -> None:
    missing = CelExpression("value.amount > 1")
    assert not missing.holds(ORDER)
    with pytest.raises(NoValue):
        missing.value(ORDER)
    assert not CelExpression("value.n").holds(ORDER)


@pytest.mark.parametrize("text", ["value.n >", "", "((", "1 +* 2"])
def test_text_that_is_not_cel_is_refused(text: str) -> None:
    with pytest.raises(NotCel):
        CelExpression(text)


LISTS = json_to_cel({"a": list(range(5000)), "b": list(range(5000)), "text": "x" * 100_000})


@pytest.mark.parametrize(
    "text",
    [
        "value.a.all(x, value.b.all(y, x != y))",
        "value.a.all(x, x in value.b)",
        "value.a.map(x, value.text + value.text).size() == 1",
        "[value.text]" + ".map(x, x + x)" * 40 + " == []",
        "string([value.a]" + ".map(x, [x, x])" * 40 + ") == ''",
    ],
)
def test_an_expression_with_too_many_steps_for_a_record_is_refused(text: str) -> None:
    expression = CelExpression(text)
    with pytest.raises(TooCostly, match="more than 400,000 steps for this record"):
        expression.holds({"value": LISTS})
    assert not expression.holds({"value": json_to_cel({})}), "each record has a budget of its own"


@pytest.mark.parametrize(
    "text",
    [
        "value.a.all(x, !string(x).matches('[a-z]{1,900}[a-z]{1,90}' + string(x)))",
        "value.a.exists(x, value.bits.matches('(0|1)*0(0|1){900}2'))",
    ],
)
def test_a_regular_expression_costs_what_it_takes(text: str) -> None:
    """A large pattern takes long to compile, and many repetitions take long to match."""
    bits = "".join(random.Random(1).choices("01", k=5_000))
    record = {"value": json_to_cel({"a": list(range(5_000)), "bits": bits})}
    watch = Stopwatch()
    with pytest.raises(TooCostly):
        CelExpression(text).holds(record)
    with pytest.raises(NoValue, match="match error"):
        CelExpression(r"value.a.exists(x, string(x).matches(r'(\p{L}{1,200}){1,5}'))").value(record)
    watch.at_most(60, because="without a bound the patterns take minutes")
    assert CelExpression("value.bits.matches('^[01]+$') && !value.bits.matches('2{1,100}')").holds(record)
    with pytest.raises(NoValue, match="match error"):
        CelExpression("'a'.matches('(')").value({})


def test_long_lists_and_texts_of_a_record_can_be_filtered() -> None:
    for text in ("value.a.exists(x, x == 4999)", "4999 in value.a && value.text.endsWith('x')", "value.a == value.b"):
        assert CelExpression(text).holds({"value": LISTS})


def test_macros_in_each_other_are_bounded() -> None:
    nested = "true"
    for name in "abc":
        nested = f"[1, 2].all({name}, {nested})"
    assert CelExpression(nested).holds({})
    with pytest.raises(NotCel, match="nested in each other more than 3 times"):
        CelExpression(f"[1, 2].all(d, {nested})")
    assert CelExpression("[1]" + ".map(x, x)" * 5 + " == [1]").holds({}), "one after the other is not nested"


def test_text_is_not_a_format_and_errors_do_not_grow() -> None:
    """Python's `%` makes a text of any length, and the text of an error would quote each error before it twice."""
    assert not CelExpression("'%999d' % 5 != ''").holds({})
    with pytest.raises(NoValue):
        CelExpression(" && ".join(["value.absent"] * 60)).value(ORDER)


def test_has_can_be_combined() -> None:
    assert CelExpression("value.n == 2 && has(value.state) && !has(value.absent)").holds(ORDER)
    assert CelExpression("has(value.state)").holds(ORDER)


LINES = json_to_cel({"lines": [{"id": 1}, {"id": 2}, {"id": 3, "tax": 4}]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value.lines.all(line, has(line.id))", True),
        ("value.lines.all(line, has(line.tax))", False),
        ("value.lines.exists(line, has(line.tax))", True),
        ("value.lines.exists(line, has(line.price))", False),
        ("value.lines.map(line, has(line.tax)) == [false, false, true]", True),
        ("value.lines.exists(line, line.tax == 4)", True),
        ("value.lines.all(line, line.tax == 5)", False),
    ],
)
def test_macros_take_has_and_elements_without_the_field(text: str, expected: bool) -> None:
    """As CEL says: an element that decides does so beside the errors of other elements."""
    assert CelExpression(text).value({"value": LINES}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "value.lines.exists(line, line.tax == 5)",
        "value.lines.all(line, line.tax == 4)",
        "value.lines.filter(line, line.tax == 4 && true).size() > 0",
        "value.lines.exists_one(line, line.price == 1 || line.tax == 4)",
        "value.lines.map(line, line.price == 1 || line.tax == 4).size() > 0",
    ],
)
def test_an_error_of_an_element_is_no_truth(text: str) -> None:
    with pytest.raises(NoValue):
        CelExpression(text).value({"value": LINES})
    assert CelExpression(f"{text} || value.lines.size() == 3").holds({"value": LINES})


def test_private_names_are_refused() -> None:
    with pytest.raises(NotCel, match="may not begin with __"):
        CelExpression("__dict__ == 1")
    assert CelExpression("value.__op == 'd'").holds({"value": json_to_cel({"__op": "d"})})


def test_threads_do_not_see_the_results_of_each_other() -> None:
    other = CelExpression("value.all(x, x == 2) && value.all(x, x == 2)")

    class Interrupted(ListType):
        """While it is read, another thread evaluates an expression of the same form."""

        def __iter__(self) -> Iterator[Any]:
            with ThreadPoolExecutor(1) as thread:
                assert not thread.submit(other.holds, {"value": json_to_cel([1])}).result()
            return super().__iter__()

    expression = CelExpression("value.all(x, x == 1) && value.all(x, x == 1)")
    assert expression.holds({"value": Interrupted([IntType(1), IntType(1)])})
