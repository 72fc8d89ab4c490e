"""Conditions of data contracts: rules of kind CONDITION and type CEL in the `ruleSet` of a schema.

A writer checks the rules of mode WRITE and WRITEREAD of the schema that it writes with, a reader those of mode READ and
WRITEREAD of the schema that it reads with. The expression sees the record as `message`. `guard; condition` checks the
condition only where the guard holds. `onFailure: NONE` lets a record pass.

Rules that change the record (TRANSFORM, for example encryption) are not run. A writer therefore refuses a schema that
has one: it would write what the contract says must be changed first. A reader shows the record as it is stored.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from headrace.kernel.dataclass import dataclass
from headrace.serialization.cel import CelExpression, NotCel, NoValue
from headrace.serialization.errors import SerializationError
from headrace.serialization.schema import RegisteredSchema

_BOTH: Final = "WRITEREAD"


class RuleMode(StrEnum):
    WRITE = "WRITE"
    READ = "READ"


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    expression: str
    guard: Callable[[Any], bool] | None
    holds: Callable[[Any], bool]

    def check(self, message: Any) -> None:
        if self.guard is not None and not self.guard(message):
            return
        if not self.holds(message):
            raise SerializationError(f"rule {self.name!r} does not hold: {self.expression}")


class Conditions:
    """The conditions of one schema in one mode."""

    def __init__(self, conditions: list[Condition]) -> None:
        self._conditions = conditions

    @classmethod
    def of(cls, schema: RegisteredSchema, mode: RuleMode) -> Conditions | None:
        """None if the schema has none. Raises SerializationError for an expression that is not CEL, and for a rule
        that a writer cannot leave out."""
        found = [made for rule in _enabled(schema, mode) if (made := _condition(rule, schema, mode)) is not None]
        return cls(found) if found else None

    def check(self, value: Any) -> None:
        """Raises SerializationError with the first rule that does not hold."""
        message = _cel(value)
        for each in self._conditions:
            each.check(message)


def _enabled(schema: RegisteredSchema, mode: RuleMode) -> Iterator[Mapping[str, Any]]:
    rules = schema.rule_set or {}
    for group in ("domainRules", "encodingRules"):
        for rule in rules.get(group) or ():
            if not rule.get("disabled") and rule.get("mode") in (mode, _BOTH):
                yield rule


def _condition(rule: Mapping[str, Any], schema: RegisteredSchema, mode: RuleMode) -> Condition | None:
    name = str(rule.get("name"))
    if rule.get("kind") != "CONDITION" or rule.get("type") != "CEL":
        if mode is RuleMode.READ:
            return None
        raise SerializationError(
            f"schema id {schema.id}: rule {name!r} is a {rule.get('kind')} of type {rule.get('type')}, which this "
            "writer does not run: write with a client that runs it, or disable the rule"
        )
    if _on_failure(rule, mode) == "NONE" or not rule.get("expr"):
        return None
    expression = str(rule["expr"])
    guard, semicolon, condition = expression.partition(";")
    if not semicolon:
        return Condition(name, expression, None, _program(name, expression))
    return Condition(name, expression, _program(name, guard) if guard.strip() else None, _program(name, condition))


def _on_failure(rule: Mapping[str, Any], mode: RuleMode) -> str:
    """One action, or `ON_WRITE,ON_READ`."""
    actions = str(rule.get("onFailure") or "ERROR").split(",")
    return actions[-1 if mode is RuleMode.READ else 0].strip().upper()


def _program(name: str, expression: str) -> Callable[[Any], bool]:
    try:
        program = CelExpression(expression.strip())
    except NotCel as fault:
        raise SerializationError(f"rule {name!r} is not CEL: {expression!r}") from fault

    def holds(message: Any) -> bool:
        try:
            return bool(program.value({"message": message}))
        except NoValue as fault:
            raise SerializationError(f"rule {name!r} cannot be evaluated ({fault}): {expression}") from fault

    return holds


def _cel(value: Any) -> Any:
    """Values as CEL has them. It has no decimals and no dates: they are doubles and ISO text."""
    import celpy.adapter
    from celpy import celtypes

    if isinstance(value, Mapping):
        return celtypes.MapType({_cel(name): _cel(each) for name, each in value.items()})
    if isinstance(value, list | tuple):
        return celtypes.ListType([_cel(each) for each in value])
    if isinstance(value, bytes):
        return celtypes.BytesType(value)
    if isinstance(value, Decimal):
        return celtypes.DoubleType(float(value))
    if isinstance(value, uuid.UUID):
        return celtypes.StringType(str(value))
    if isinstance(value, date | time) and not isinstance(value, datetime):
        return celtypes.StringType(value.isoformat())
    if isinstance(value, datetime):
        return celtypes.TimestampType(value)
    if isinstance(value, timedelta):
        return celtypes.DurationType(value)
    return celpy.adapter.json_to_cel(value)
