"""The declaration of one key: its name, type, default, rule, meaning, and how it may change.

Everything about a key is derived from its `Key`: parsing, validation, inheritance, DescribeConfigs, the reference page
and command-line completion. Kafka has the same facts in ConfigDef, dynamic-config sets and synonym maps; Headrace has
them in one place (`keys/`).

Values are parsed and printed as in Kafka's ConfigDef (trimmed; `true`/`false` in any case; lists split at commas), so
that DescribeConfigs answers are equal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from typing import Any, Final

from headrace.config.effect import HONOURED, Effect, Outcome
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault

# One of int, float, bool, str, list[str] or None. `Any`, because a caller knows its key's type and a checker cannot.
Value = Any

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = sys.float_info.max


# A user name and password in an address, which messages must not repeat.
_LOGIN_IN_URL: Final = re.compile(r"://[^/@\s]*@")


class ConfigError(Fault):
    """The message names the key, its value and the violated rule: `segment.bytes='3': must be at least 1048576`."""

    default_code = ErrorCode.invalid_config

    def __init__(self, key: str, value: str | None, rule: str) -> None:
        shown = None if value is None else _LOGIN_IN_URL.sub("://…@", value)
        super().__init__(f"{key}: {rule}" if shown is None else f"{key}='{shown}': {rule}")
        self.key = key
        self.value = value
        self.rule = rule


class Type(IntEnum):
    """Kafka's config types; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Update(Enum):
    """When a broker key may change, in Kafka's terms."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class Rule:
    """A validator: the requirement, in words that complete 'key=value: …', the check, and the values if few."""

    words: str
    holds: Callable[[Value], bool]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key from which a topic or group key inherits; `factor` converts hours or minutes to the key's unit."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    type: Type
    default: Value
    doc: str
    rule: Rule | None = None
    importance: Importance = Importance.MEDIUM
    update: Update = Update.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    dynamic_only: bool = False
    """Set by AlterConfigs only, never in `server.properties`; shown only if it is set."""
    internal: bool = False
    """Hidden, because it is only for tests, as in Kafka."""
    effect: Effect = HONOURED
    """What happens when a value other than the default is set."""
    static_only: bool = False
    """Kafka can change it while a broker runs. Headrace reads it from `server.properties` only and refuses the change.
    """
    difference: str = ""
    """How its effect differs from Apache Kafka 4.3, in one sentence; empty if it does not differ."""
    ours: bool = False
    """A key of Headrace's own or of an older Kafka: Apache Kafka 4.3 does not have it."""

    @property
    def choices(self) -> tuple[str, ...]:
        """All values, if they are few: forms offer them."""
        if self.type is Type.BOOLEAN:
            return ("true", "false")
        return () if self.rule is None else self.rule.choices

    @property
    def is_sensitive(self) -> bool:
        return self.type is Type.PASSWORD

    def parse(self, text: str) -> Value:
        """The typed value. Raises `ConfigError` if the text has the wrong type or violates the rule."""
        value = parse_value(self.type, text)
        if value is _WRONG:
            raise ConfigError(self.name, self._shown(text), _TYPE_WORDS[self.type])
        if self.rule is not None and not self.rule.holds(value):
            raise ConfigError(self.name, self._shown(text), self.rule.words)
        if self.effect.outcome is Outcome.REFUSED and not self._is_default(value):
            raise ConfigError(self.name, self._shown(text), f"{self.effect.why}; {self._way_out}")
        return value

    def warning(self, text: str) -> str | None:
        """The warning for the log if the value has no effect although users could expect one."""
        if self.effect.outcome is not Outcome.WARNED or self._is_default(self.parse(text)):
            return None
        return f"{self.name}='{self._shown(text)}' has no effect: {self.effect.why}."

    @property
    def _way_out(self) -> str:
        default = format_value(self.type, self.default)
        return f"only {default} is accepted" if default else "remove this key"

    def _is_default(self, value: Value) -> bool:
        return value == self.default or (self.default is None and value in ("", []))

    def _shown(self, text: str) -> str:
        return "[hidden]" if self.is_sensitive else text


_WRONG = object()
_RANGES = {Type.SHORT: 2**15, Type.INT: 2**31, Type.LONG: 2**63}
_TYPE_WORDS = {
    Type.BOOLEAN: "must be true or false",
    Type.STRING: "must be text",
    Type.INT: "must be a whole number of 32 bits",
    Type.SHORT: "must be a whole number of 16 bits",
    Type.LONG: "must be a whole number of 64 bits",
    Type.DOUBLE: "must be a number",
    Type.LIST: "must be a list of names separated by commas",
    Type.CLASS: "must be a class name",
    Type.PASSWORD: "must be text",
}
_WHOLE = re.compile(r"[+-]?[0-9]+\Z")
_COMMAS = re.compile(r"\s*,\s*")


def parse_value(kind: Type, text: str) -> Value:
    text = text.strip()
    if kind is Type.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower(), _WRONG)
    if kind in _RANGES:
        if not _WHOLE.match(text):
            return _WRONG
        number = int(text)
        return number if -_RANGES[kind] <= number < _RANGES[kind] else _WRONG
    if kind is Type.DOUBLE:
        try:
            return float(text)
        except ValueError:
            return _WRONG
    if kind is Type.LIST:
        return _COMMAS.split(text) if text else []
    return text


def format_value(kind: Type, value: Value) -> str | None:
    """The text that Kafka shows for a typed value."""
    if value is None:
        return None
    if kind is Type.BOOLEAN:
        return "true" if value else "false"
    if kind is Type.LIST:
        return ",".join(value)
    if kind is Type.DOUBLE:
        return _java_double(float(value))
    return str(value)


def _java_double(number: float) -> str:
    """Java prints 1.0E7 and 1.0E-4 where Python prints 10000000.0 and 0.0001."""
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    mantissa, _, exponent = f"{number:.17e}".partition("e")
    for digits in range(1, 18):  # the shortest text that reads back as the same number
        short = f"{number:.{digits}e}"
        if float(short) == number:
            mantissa, _, exponent = short.partition("e")
            break
    return f"{mantissa}E{int(exponent)}"


def attribute_names(keys: Iterable[str], but: str = "") -> dict[str, str]:
    """`log_segment_bytes` → `log.segment.bytes`, for reading a configuration by attribute."""
    return {name.replace(".", "_").replace("-", "_"): name for name in keys if name != but}
