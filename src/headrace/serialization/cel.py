"""CEL expressions: the filters of readers and the conditions of data contracts.

The library keeps one parser for the whole process, and its first user decides which kind of tree that parser builds.
The tree of the library's interpreter does not fit its compiler, and the parser serves one thread at a time. So every
expression of Headrace is compiled here: one at a time, and with a parser of its own, so that another user of the
library in the same process keeps the parser that it has.

The library also evaluates all expressions in the names of one module, so two threads could take each other's results.
Here each evaluation has names of its own, and a budget (`cel_budget`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.serialization.cel_budget import MACROS, MOST_STEPS, Spent, begin_budget, counted_names

if TYPE_CHECKING:
    from lark import Lark, Tree

_COMPILING = threading.Lock()
# Orders, their lines and the tags of a line are three lists in each other.
MOST_NESTED: Final = 3
# A text that comes with a request.
LONGEST_FILTER: Final = 2000


class NotCel(ValueError):
    """The text is not a CEL expression. `column` counts from 1; it is None if the library does not name it."""

    def __init__(self, reason: str, column: int | None = None) -> None:
        super().__init__(reason)
        self.column = column


class NoValue(ValueError):
    """The expression has no value for these names, for example because a field is missing."""


class TooCostly(NoValue):
    """The expression spent its budget for this record."""

    def __init__(self) -> None:
        super().__init__(
            f"the expression takes more than {MOST_STEPS:,} steps for this record: visit shorter lists, or compare "
            "fewer elements"
        )


class CelExpression:
    def __init__(self, text: str) -> None:
        """Raises NotCel."""
        # Imported on first use: the library takes half a second to load.
        import celpy
        from celpy.celparser import CELParseError

        logging.getLogger("celpy").setLevel(logging.CRITICAL)  # it logs each record on which an expression fails
        with _COMPILING, _OwnParser():
            try:
                environment = celpy.Environment(runner_class=celpy.CompiledRunner)
                tree = environment.compile(text)
                _check(tree)
                program = environment.program(tree)
                assert isinstance(program, celpy.CompiledRunner)
            except NotCel:
                raise
            except CELParseError as error:
                raise NotCel(str(error.args[0]) if error.args else "a syntax error", error.column) from None
            except Exception as error:
                # Boundary to the library: its compiler raises errors of many kinds for text of the caller.
                raise NotCel(f"{type(error).__name__}: {error}") from None
        self._characters = len(text)
        self._code = program.tp.executable_code
        self._activation = program.tp.base_activation
        self._names = counted_names()

    def value(self, names: Mapping[str, Any]) -> Any:
        """Names hold values of CEL. Raises NoValue, and TooCostly if there is no value within the budget."""
        from celpy.evaluation import CELEvalError

        activation = self._activation.clone()
        activation.identifiers.load_values(dict(names))
        its_names = {**self._names, "base_activation": activation}
        begin_budget(self._characters)
        try:
            exec(self._code, its_names)
        except Spent:
            raise TooCostly from None
        except Exception as error:
            # Boundary to the library: a value of an unexpected type raises errors of many kinds.
            raise NoValue(f"evaluation error: {type(error).__name__}") from error
        found = its_names["CEL"]
        if isinstance(found, CELEvalError):
            raise NoValue(str(found.args[0]) if found.args else type(found).__name__) from found
        return found

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether the expression is true. One that has no value, or a value that is no truth value, does not hold.
        Raises TooCostly: to stop there is better than to pass over a record that may hold, and to go on with work."""
        from celpy.celtypes import BoolType

        try:
            result = self.value(names)
        except TooCostly:
            raise
        except NoValue:
            return False
        return isinstance(result, BoolType | bool) and bool(result)


def _check(tree: Tree[Any]) -> None:
    """Raises NotCel for macros that are nested too deep, and for the private names of Python objects, which the
    library would look up."""
    waiting: list[tuple[Tree[Any], int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        children = list(node.children)
        if node.data == "ident" and str(children[0]).startswith("__"):
            raise NotCel(f"{children[0]}: a name may not begin with __")
        if node.data == "member_dot_arg" and str(children[1]) in MACROS:
            if depth == MOST_NESTED:
                raise NotCel(f"{', '.join(MACROS)} are nested in each other more than {MOST_NESTED} times")
            # The list itself is evaluated once, and what is in the brackets for each of its elements.
            waiting += [(child, depth + 1) for child in children[2:]]
            children = children[:1]
        waiting += [(child, depth) for child in children if hasattr(child, "children")]


class _OwnParser:
    """Gives the library the parser of Headrace for the time of a compilation."""

    _ours: Lark | None = None

    def __enter__(self) -> None:
        from celpy.celparser import CELParser

        self._theirs, CELParser.CEL_PARSER = CELParser.CEL_PARSER, _OwnParser._ours

    def __exit__(self, *_: object) -> None:
        from celpy.celparser import CELParser

        _OwnParser._ours, CELParser.CEL_PARSER = CELParser.CEL_PARSER, self._theirs
