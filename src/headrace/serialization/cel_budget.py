"""A bound on the work of a CEL expression for one record.

An expression with nested macros over lists takes exponential time for its length, and `[text].map(t, t + t)`, repeated,
exponential memory. The lists may be in the record, so the text alone does not tell. The library has no bound, and a
thread cannot be stopped from outside. So the evaluation counts its work, and ends when the budget is spent:

- Each element that a macro visits costs as much as the expression is long, because it is evaluated once for it.
- A function or an operator costs as many steps as it reads elements of lists and maps, and 32 characters are one step.
- A regular expression also costs the steps of the time that it takes: neither its length nor that of the text tells
  how long RE2 compiles it, or matches with hundreds of repetitions.

An error in an expression is a value, and the text of an error quotes the values that led to it. Errors that quote
errors double with each operator, so here an operator with an error has this error as its value. So has a macro: the
library takes an error for true, and `filter` and `exists_one` would keep the element.

The library compiles an expression to Python that names its functions with their modules. `counted_names` are the global
names of that Python, with functions that count in the place of the library's.
"""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from headrace.serialization.patterns import UnsupportedPattern, matches

# About half a second of one processor at most. A macro with an expression of 40 characters visits 25,000 elements.
MOST_STEPS: Final = 400_000
# An element that a macro visits costs this and a step for each of so many characters of the expression.
_VISIT_STEPS: Final = 8
_CHARACTERS_EVALUATED: Final = 1
_CHARACTERS_READ: Final = 32
_MATCHING_STEP_NS: Final = 1_250
MACROS: Final = ("map", "filter", "all", "exists", "exists_one")
# These take an element or a length, and read no more than that.
_READ_NOTHING: Final = frozenset({"getitem", "function_size", "TypeType"})
# These copy a list or a map, and not what is in it.
_READ_ONE_LEVEL: Final = frozenset({"add", "ListType", "MapType"})
# Python formats and repeats text with these; CEL knows them for numbers only.
_NUMBERS_ONLY: Final = frozenset({"mul", "mod"})


class Spent(Exception):
    """The budget is spent. Not one of the errors that the library takes for the value of an expression."""


class _Account(threading.local):
    """What the evaluation of this thread may still spend."""

    steps_left = MOST_STEPS
    visit_steps = _VISIT_STEPS


_account = _Account()


def begin_budget(characters: int) -> None:
    """Begins the evaluation of an expression of so many characters in this thread."""
    _account.steps_left = MOST_STEPS
    _account.visit_steps = _VISIT_STEPS + characters // _CHARACTERS_EVALUATED


def counted_names() -> dict[str, Any]:
    from celpy import celtypes, evaluation

    types = _counted(celtypes, lambda name: name.endswith("Type"))
    logic = {
        "logical_and": _connective(decides=False),
        "logical_or": _connective(decides=True),
        "logical_not": lambda value: celtypes.logical_not(_truth(value)),
        "logical_condition": lambda value, *branches: celtypes.logical_condition(_truth(value), *branches),
    }
    functions = dict(_counted(evaluation, lambda name: name.startswith(("bool_", "function_", "operator_"))))
    functions["function_matches"] = _reading("function_matches", _matches)
    all_macros = {name: _without_errors(getattr(evaluation, f"macro_{name}")) for name in MACROS}
    all_macros |= {"all": _each(decides=False), "exists": _each(decides=True)}
    macros = {f"macro_{name}": _visiting(macro) for name, macro in all_macros.items()}
    evaluating = SimpleNamespace(**{**vars(evaluation), **functions, **macros})
    return {
        **vars(evaluation),
        "celpy": SimpleNamespace(
            celtypes=SimpleNamespace(**{**vars(celtypes), **types, **logic}), evaluation=evaluating
        ),
        "operator": SimpleNamespace(**_counted(operator, lambda name: not name.startswith("_"))),
    }


def _counted(module: ModuleType, is_function: Callable[[str], bool]) -> Mapping[str, Any]:
    return {
        name: _reading(name, function)
        for name, function in vars(module).items()
        if is_function(name) and callable(function)
    }


def _truth(value: Any) -> Any:
    """`has` has a truth value of Python, which the operators of the library do not take."""
    from celpy.celtypes import BoolType

    return BoolType(value) if isinstance(value, bool) else value


def _connective(*, decides: bool) -> Callable[[Any, Any], Any]:
    """`||` or `&&`: a truth value that decides the result decides it beside an error, too."""
    from celpy.celtypes import BoolType

    def connected(left: Any, right: Any) -> Any:
        values = (_truth(left), _truth(right))
        for value in values:
            if isinstance(value, BoolType) and bool(value) is decides:
                return value
        for value in values:
            if isinstance(value, Exception):
                return value
        if not any(isinstance(value, BoolType) for value in values):
            raise TypeError("no truth values")
        return values[1] if isinstance(values[0], BoolType) else values[0]

    return connected


def _reading(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    spend = _spend_nothing if name in _READ_NOTHING else _spend_one_level if name in _READ_ONE_LEVEL else _spend

    def counted(*values: Any) -> Any:
        for value in values:
            if isinstance(value, Exception):
                return value
            if isinstance(value, _SIZED):
                if name in _NUMBERS_ONLY:
                    raise TypeError(name)
                spend(value)
        return function(*values)

    return counted


def _each(*, decides: bool) -> Callable[..., Any]:
    """`all` or `exists`: `&&` or `||` of all elements. The library's do not take the truth value of `has`, nor two
    errors before the element that decides."""
    from celpy.celtypes import BoolType
    from celpy.evaluation import result

    connected = _connective(decides=decides)

    def macro(activation: Any, variable: str, expression: Any, elements: Callable[[Any], Any]) -> Any:
        found: Any = BoolType(not decides)
        for element in elements(activation):
            found = connected(found, result(activation.nested_activation(vars={variable: element}), expression))
        return found

    return macro


class _Failed(Exception):
    def __init__(self, error: Exception) -> None:
        self.error = error


def _without_errors(macro: Callable[..., Any]) -> Callable[..., Any]:
    """The macro has the first error of an element as its value."""

    def checked(activation: Any, variable: str, expression: Any, elements: Callable[[Any], Any]) -> Any:
        def value_of(inner: Any) -> Any:
            value = _truth(expression(inner))
            if isinstance(value, Exception):
                raise _Failed(value)
            return value

        try:
            return macro(activation, variable, value_of, elements)
        except _Failed as failed:
            return failed.error

    return checked


def _visiting(macro: Callable[..., Any]) -> Callable[..., Any]:
    def counted(activation: Any, variable: str, expression: Any, elements: Callable[[Any], Any]) -> Any:
        return macro(activation, variable, expression, lambda outer: _visited(elements(outer)))

    return counted


def _visited(elements: Any) -> Iterator[Any]:
    for element in elements:
        _take(_account.visit_steps)
        yield element


def _matches(text: Any, pattern: Any) -> Any:
    """`matches` of CEL. The library compiles a pattern that is too large again for each text."""
    from celpy.celtypes import BoolType
    from celpy.evaluation import CELEvalError

    if not isinstance(text, str) or not isinstance(pattern, str):
        raise TypeError("matches")
    began_ns = time.thread_time_ns()
    try:
        return BoolType(matches(str(pattern), text))
    except UnsupportedPattern as fault:
        return CELEvalError("match error", type(fault), fault.args)
    finally:
        _take((time.thread_time_ns() - began_ns) // _MATCHING_STEP_NS)


_SIZED: Final = (str, bytes, list, dict)


def _spend_nothing(_: Any) -> None:
    return


def _spend_one_level(value: Any) -> None:
    _take(len(value) // _CHARACTERS_READ if isinstance(value, str | bytes) else len(value))


def _spend(value: Any) -> None:
    """Not recursive: the value may be as deep as the budget allows."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, _SIZED):
            _spend_one_level(one)
            if isinstance(one, dict):
                waiting.extend(one)
                waiting.extend(one.values())
            elif isinstance(one, list):
                waiting.extend(one)
        elif isinstance(one, Exception):
            raise TypeError("an error in a list")


def _take(steps: int) -> None:
    _account.steps_left -= steps
    if _account.steps_left < 0:
        raise Spent
