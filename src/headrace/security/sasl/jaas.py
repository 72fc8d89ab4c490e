"""`sasl.jaas.config`: login modules and their options, in Java's own syntax.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="a \"secret\"";

The class is only a name here: it is never loaded (CVE-2023-25194).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headrace.kernel.dataclass import dataclass

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"\s+|(?P<word>[^\s=;\"']+)|(?P<sign>[=;])|\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>(?:[^'\\]|\\.)*)'",
    re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class BadJaas(ValueError):
    """A text that is not a JAAS configuration. The message never repeats the text, which holds passwords."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:  # options hold passwords
        return f"LoginModule({self.name})"


def login_modules(text: str) -> list[LoginModule]:
    """Raises BadJaas."""
    modules: list[LoginModule] = []
    statement: list[tuple[str, str]] = []
    for kind, value in _tokens(text):
        if (kind, value) == ("sign", ";"):
            modules.append(_module(statement))
            statement = []
        else:
            statement.append((kind, value))
    if statement:
        raise BadJaas("a login module does not end with ';'")
    return modules


def one_login_module(text: str) -> LoginModule:
    """Raises BadJaas: `sasl.jaas.config` takes exactly one login module."""
    modules = login_modules(text)
    if len(modules) != 1:
        raise BadJaas(f"it must have exactly one login module, and it has {len(modules)}")
    return modules[0]


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadJaas(f"a quoted value that begins at character {at + 1} does not end")
        at = match.end()
        if match.lastgroup in ("double", "single"):
            unescaped = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), match[match.lastgroup], flags=re.DOTALL)
            found.append(("value", unescaped))
        elif match.lastgroup is not None:
            found.append((match.lastgroup, match[match.lastgroup]))
    return found


def _module(statement: list[tuple[str, str]]) -> LoginModule:
    if len(statement) < 2 or statement[0][0] != "word" or statement[1][1].lower() not in _FLAGS:
        raise BadJaas("a login module is a class name, a flag such as 'required', and options as name=\"value\"")
    options: dict[str, str] = {}
    rest = statement[2:]
    for at in range(0, len(rest), 3):
        option = rest[at : at + 3]
        if len(option) != 3 or option[1] != ("sign", "=") or option[2][0] == "sign":
            raise BadJaas(f'option {at // 3 + 1} of {statement[0][1]} is not in the form name="value"')
        options[option[0][1]] = option[2][1]
    return LoginModule(statement[0][1], statement[1][1].lower(), options)
