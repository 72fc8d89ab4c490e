"""Expectations: rules that rows of a flow must satisfy, and what happens to a row that does not.

    from headrace.pipelines.expectations import expect, expect_or_drop, expect_or_fail, expect_or_quarantine

    @dp.temporary_view
    @expect("has_region", "region IS NOT NULL")             # the row passes and is counted
    @expect_or_drop("positive", "amount >= 0")              # the row is dropped
    @expect_or_quarantine("known", "currency IN ('EUR')")   # the row becomes a dead letter
    @expect_or_fail("has_id", "id IS NOT NULL")             # the flow stops
    def orders() -> DataFrame: ...

A decorator stands below the decorator of `dp`. The lowest one is checked first. A rule is a SQL expression over the
columns of the DataFrame. A row satisfies it only if the expression is true: null does not satisfy it. A quarantined row
gets the rule as its `_error`, so it needs the columns of `decode`, and a flow of `dead_letters` writes it.

Every rule counts its rows with Spark's `observe`. `counts_of` reads the counts from a progress event.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.pipelines.errors import OptionError, nearest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WARN: Final = "warn"
DROP: Final = "drop"
QUARANTINE: Final = "quarantine"
FAIL: Final = "fail"
ACTIONS: Final = (WARN, DROP, QUARANTINE, FAIL)
# Metrics of a rule have this name, then the action, the place and the rule.
_METRICS: Final = "headrace_rule"
_SEPARATOR: Final = "|"
# Beginning of the error of a flow that a rule stopped: the flow must not start again.
FAILED_RULE: Final = "expectation "
_SHOWN_ROW: Final = 200

QueryFunction = Callable[[], "DataFrame"]


@dataclass(frozen=True)
class Rule:
    name: str
    check: str
    action: str = WARN

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            hint = nearest(self.action, ACTIONS)
            raise OptionError(f"expectation {self.name!r}: {self.action!r} is unknown{hint}: use {', '.join(ACTIONS)}")
        if not self.name or _SEPARATOR in self.name:
            raise OptionError(f"expectation {self.name!r}: the name must be a text without {_SEPARATOR}")


@dataclass(frozen=True)
class RuleCount:
    """What a rule saw in one batch."""

    place: str
    rule: str
    action: str
    checked: int
    failed: int


def checked_frame(frame: DataFrame, rules: Iterable[Rule], place: str) -> DataFrame:
    """The rows after the rules, which are checked in order. `place` names the DataFrame in metrics."""
    for rule in rules:
        frame = _checked(frame, rule, place)
    return frame


def _checked(frame: DataFrame, rule: Rule, place: str) -> DataFrame:
    from pyspark.sql import functions as f  # imported here: `--lite` runs on a machine without Spark

    holds = f.coalesce(f.expr(rule.check).cast("boolean"), f.lit(False))
    relevant: Column = f.lit(True)
    if "_error" in frame.columns:
        # Rows that could not be decoded have no columns to check.
        relevant = f.col("_error").isNull()
    if "_deleted" in frame.columns:
        relevant = relevant & ~f.col("_deleted")
    fails = relevant & ~holds
    metrics = _SEPARATOR.join((_METRICS, rule.action, place, rule.name))
    frame = frame.observe(metrics, f.count_if(relevant).alias("checked"), f.count_if(fails).alias("failed"))
    if rule.action == DROP:
        return frame.where(~fails)
    if rule.action == QUARANTINE:
        if not {"_error", "_source"} <= set(frame.columns):
            raise OptionError(
                f"expectation {rule.name!r}: a quarantined row needs the columns _error and _source, so check the "
                "rows of decode(), or use expect_or_drop"
            )
        reason = f.lit(f"expectation {rule.name!r}: {rule.check} is not true")
        return frame.withColumn("_error", f.when(fails, reason).otherwise(f.col("_error")))
    if rule.action == FAIL:
        shown = [name for name in frame.columns if not name.startswith("_")]
        row = f.substring(f.to_json(f.struct(*shown)), 1, _SHOWN_ROW) if shown else f.lit("")
        words = f.concat(f.lit(f"{FAILED_RULE}{rule.name!r} failed: {rule.check} is not true for the row "), row)
        return frame.where(f.when(fails, f.raise_error(words).cast("boolean")).otherwise(f.lit(True)))
    return frame


def expect(name: str, check: str | None = None) -> Callable[[QueryFunction], QueryFunction]:
    """Counts the rows that do not satisfy the rule. With one argument the rule is its own name."""
    return _decorator(name, check, WARN)


def expect_or_drop(name: str, check: str | None = None) -> Callable[[QueryFunction], QueryFunction]:
    return _decorator(name, check, DROP)


def expect_or_quarantine(name: str, check: str | None = None) -> Callable[[QueryFunction], QueryFunction]:
    return _decorator(name, check, QUARANTINE)


def expect_or_fail(name: str, check: str | None = None) -> Callable[[QueryFunction], QueryFunction]:
    return _decorator(name, check, FAIL)


def _decorator(name: str, check: str | None, action: str) -> Callable[[QueryFunction], QueryFunction]:
    rule = Rule(name, check if check is not None else name, action)

    def decorate(function: QueryFunction) -> QueryFunction:
        @functools.wraps(function)
        def checked() -> DataFrame:
            return _checked(function(), rule, function.__name__)

        return checked

    return decorate


def rules_of(given: object, place: str) -> list[Rule]:
    """The rules of `expect:` in a connector: a mapping of names to checks, or a list of {name, check, else}."""
    if isinstance(given, Mapping):
        given = [{"name": name, "check": check} for name, check in given.items()]
    if not isinstance(given, list):
        raise OptionError(f"{place} must map names to checks, or be a list of {{name, check, else}}")
    return [_rule(one, f"{place}[{number}]") for number, one in enumerate(given)]


def _rule(given: object, place: str) -> Rule:
    known = ("name", "check", "else")
    if isinstance(given, str):
        given = {"check": given}
    if not isinstance(given, Mapping):
        raise OptionError(f"{place} must be a check, or {{name, check, else}}")
    if unknown := next((key for key in given if key not in known), None):
        raise OptionError(f"{place}: {unknown!r} is unknown{nearest(str(unknown), known)}")
    if not isinstance(given.get("check"), str):
        raise OptionError(f'{place}: "check" must be a SQL expression, for example amount >= 0')
    return Rule(str(given.get("name") or given["check"]), given["check"], str(given.get("else") or WARN))


def counts_of(observed: Mapping[str, object]) -> list[RuleCount]:
    """The counts of the rules among the observed metrics of a progress event."""
    found = []
    for name, row in observed.items():
        parts = name.split(_SEPARATOR, 3)
        if parts[0] == _METRICS and len(parts) == 4:
            checked, failed = (int(row[part] or 0) for part in ("checked", "failed"))  # type: ignore[index]
            found.append(RuleCount(parts[2], parts[3], parts[1], checked, failed))
    return found
