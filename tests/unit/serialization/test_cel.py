"""CEL expressions compile whatever else in the process uses the library, and from several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import celpy
import pytest
from celpy.adapter import json_to_cel
from celpy.celparser import CELParser

from headrace.serialization.cel import CelExpression, NotCel, NoValue

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
