"""CEL expressions: the filters of readers and the conditions of data contracts.

The library keeps one parser for the whole process, and its first user decides which kind of tree that parser builds.
The tree of the library's interpreter does not fit its compiler, and the parser serves one thread at a time. So every
expression of Headrace is compiled here: one at a time, and with a parser of its own, so that another user of the
library in the same process keeps the parser that it has.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lark import Lark

_COMPILING = threading.Lock()


class NotCel(ValueError):
    """The text is not a CEL expression. `column` counts from 1; it is None if the library does not name it."""

    def __init__(self, reason: str, column: int | None = None) -> None:
        super().__init__(reason)
        self.column = column


class NoValue(ValueError):
    """The expression has no value for these names, for example because a field is missing."""


class CelExpression:
    def __init__(self, text: str) -> None:
        """Raises NotCel."""
        # Imported on first use: the library takes half a second to load.
        import celpy
        from celpy.celparser import CELParseError
        from celpy.evaluation import CELEvalError

        logging.getLogger("celpy").setLevel(logging.CRITICAL)  # it logs each record on which an expression fails
        self._faults = (CELEvalError, ValueError, TypeError, AttributeError, KeyError)
        with _COMPILING, _OwnParser():
            try:
                environment = celpy.Environment(runner_class=celpy.CompiledRunner)
                self._program = environment.program(environment.compile(text))
            except CELParseError as error:
                raise NotCel(str(error.args[0]) if error.args else "a syntax error", error.column) from None
            except Exception as error:
                # Boundary to the library: its compiler raises errors of many kinds for text of the caller.
                raise NotCel(f"{type(error).__name__}: {error}") from None

    def value(self, names: Mapping[str, Any]) -> Any:
        """Names hold values of CEL. Raises NoValue."""
        try:
            return self._program.evaluate(dict(names))
        except self._faults as error:
            raise NoValue(str(error.args[0]) if error.args else type(error).__name__) from error

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether the expression is true. One that has no value, or a value that is no truth value, does not hold."""
        from celpy.celtypes import BoolType

        try:
            result = self.value(names)
        except NoValue:
            return False
        return isinstance(result, BoolType) and bool(result)


class _OwnParser:
    """Gives the library the parser of Headrace for the time of a compilation."""

    _ours: Lark | None = None

    def __enter__(self) -> None:
        from celpy.celparser import CELParser

        self._theirs, CELParser.CEL_PARSER = CELParser.CEL_PARSER, _OwnParser._ours

    def __exit__(self, *_: object) -> None:
        from celpy.celparser import CELParser

        _OwnParser._ours, CELParser.CEL_PARSER = CELParser.CEL_PARSER, self._theirs
