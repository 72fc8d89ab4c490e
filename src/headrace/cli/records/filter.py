"""The filter language of `headrace consume --where`: small, safe, never evaluated as code.

    key == "alice" and value.amount >= 100 and not header.source startswith "test"

    expression  or   := and ("or" and)*        and := unary ("and" unary)*
    unary       "not" unary | "(" or ")" | test
    test        field [operator literal]        a field alone tests whether it exists
    field       key value topic partition offset timestamp size, key.PATH, value.PATH (into JSON), header.NAME
    operator    == != < <= > >= contains startswith endswith
    literal     "text" or 'text', a number, true, false, null

Numbers compare with numbers, everything else as text. A missing field fails every test except `== null` and `!=`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from headrace.cli.records.text import Decoding, Seen, as_text, decode, header, json_path

Test = Callable[[Seen], bool]
Read = Callable[[Seen], object]
_TOKENS: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])
    |(?P<sign>==|!=|<=|>=|<|>|\(|\))|(?P<word>[A-Za-z_][\w.\-]*))""",
    re.VERBOSE,
)
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip
_TEXT_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "contains": lambda a, b: b in a, "startswith": str.startswith, "endswith": str.endswith,
}  # fmt: skip
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_MAX_DEPTH: Final = 50


class WrongFilter(ValueError):
    """The message names the error and the column."""


def compile_filter(text: str) -> Test:
    """Raises WrongFilter."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while text[at:].strip():
            found = _TOKENS.match(text, at)
            if found is None:
                column = at + len(text[at:]) - len(text[at:].lstrip()) + 1
                raise WrongFilter(f"filter {text!r}: {text[column - 1]!r} at column {column} is not understood")
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind], found.start(kind) + 1))
            at = found.end()
        self.at = 0

    def fail(self, wanted: str) -> WrongFilter:
        where = f"column {self.tokens[self.at][2]}" if self.at < len(self.tokens) else "its end"
        return WrongFilter(f"filter {self.text!r}: {wanted} is expected at {where}")

    def take(self, *words: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at][0] != "text" and self.tokens[self.at][1] in words:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def whole(self) -> Test:
        test = self.either(0)
        if self.at < len(self.tokens):
            raise self.fail("'and', 'or' or an operator")
        return test

    def either(self, depth: int) -> Test:
        tests = [self.both(depth)]
        while self.take("or"):
            tests.append(self.both(depth))
        return tests[0] if len(tests) == 1 else lambda record: any(test(record) for test in tests)

    def both(self, depth: int) -> Test:
        tests = [self.unary(depth)]
        while self.take("and"):
            tests.append(self.unary(depth))
        return tests[0] if len(tests) == 1 else lambda record: all(test(record) for test in tests)

    def unary(self, depth: int) -> Test:
        if depth > _MAX_DEPTH:
            raise WrongFilter(f"filter: more than {_MAX_DEPTH} levels of brackets and nots")
        if self.take("not"):
            inner = self.unary(depth + 1)
            return lambda record: not inner(record)
        if self.take("("):
            inner = self.either(depth + 1)
            if not self.take(")"):
                raise self.fail("')'")
            return inner
        return self.test()

    def test(self) -> Test:
        read = self.field()
        operator = self.take("==", "!=", *_ORDERS, *_TEXT_TESTS)
        if operator is None:
            return lambda record: read(record) is not None
        return _comparison(read, operator, self.literal())

    def field(self) -> Read:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "word":
            raise self.fail("a field")
        name = self.tokens[self.at][1]
        first, dot, rest = name.partition(".")
        plain = _FIELDS.get(name)
        if plain is None and not (dot and rest and first in ("header", "key", "value")):
            raise self.fail(f"one of {', '.join(_FIELDS)}, value.PATH, key.PATH or header.NAME instead of {name!r}")
        self.at += 1
        if plain is not None:
            return plain
        if first == "header":
            return lambda record: decode(header(record, rest), Decoding.AUTO)
        path = rest.split(".")
        return lambda record: json_path(record.key if first == "key" else record.value, path)

    def literal(self) -> object:
        if self.at < len(self.tokens):
            kind, text, _ = self.tokens[self.at]
            self.at += 1
            if kind == "text":
                return re.sub(r"\\(.)", r"\1", text[1:-1])
            if kind == "number":
                return float(text) if "." in text else int(text)
            if kind == "word" and text in _CONSTANTS:
                return _CONSTANTS[text]
            self.at -= 1
        raise self.fail('a literal ("text", a number, true, false or null)')


_FIELDS: Final[dict[str, Read]] = {
    "key": lambda r: decode(r.key, Decoding.AUTO),
    "value": lambda r: decode(r.value, Decoding.AUTO),
    "topic": lambda r: r.topic,
    "partition": lambda r: r.partition,
    "offset": lambda r: r.offset,
    "timestamp": lambda r: r.timestamp_ms,
    "size": lambda r: len(r.value or b""),
}


def _comparison(read: Read, operator: str, wanted: object) -> Test:
    if operator == "==":
        return lambda record: _same(read(record), wanted)
    if operator == "!=":
        return lambda record: not _same(read(record), wanted)
    if operator in _TEXT_TESTS:
        test, part = _TEXT_TESTS[operator], as_text(wanted)
        return lambda record: (found := read(record)) is not None and test(as_text(found), part)
    order = _ORDERS[operator]

    def ordered(record: Seen) -> bool:
        found = read(record)
        if found is None or wanted is None:
            return False
        one, other = _number(found), _number(wanted)
        return order(as_text(found), as_text(wanted)) if one is None or other is None else order(one, other)

    return ordered


def _same(found: object, wanted: object) -> bool:
    if isinstance(found, str) and not isinstance(wanted, str) and wanted is not None:
        number = _number(found)
        return number is not None and number == _number(wanted)
    return bool(found == wanted)


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None
