"""Rejects a checkpoint that does not fit a changed flow. Spark would fail late or, worse, give wrong results.

A checkpoint fits one shape of query: the format of its sources, its stateful operators (grouping keys, aggregates,
joins), everything below them, and its sink. What is below matters as much as the operator: `groupBy("k")` over another
expression named `k` would add to counts of the old `k`. The guard stores this shape next to the checkpoint and compares
it at the next start. The error message shows the difference. Changes above the state (another filter, another column)
are allowed. If only expressions below the operators changed, the state still has the right columns, and a person may
accept the change (`accept=True`): old state stays as it is, new rows follow the new query.

The guard sees the plan, not the code of Python functions in it.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_NAME: Final = "headrace-plan.json"
_STATEFUL: Final = re.compile(
    r"^[\s:+|-]*~?(Aggregate|Deduplicate\w*|Join|FlatMapGroups\w*|TransformWithState\w*|GlobalLimit|Distinct)\b(.*)$"
)
_EXPRESSION_ID: Final = re.compile(r"#\d+L?")
_SOURCE: Final = re.compile(r"StreamingRelationV2 [^,\n]*, (\w+)")
_KEEPS_STATE: Final = re.compile(r"~(Aggregate|Deduplicate|FlatMapGroups|TransformWithState|GlobalLimit|Distinct)")
_NUMBERED: Final = re.compile(r"#(\d+)L?")
_RANDOM: Final = re.compile(r"@[0-9a-f]+|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}, ?")
# Lines that say how a query is written, not what it computes.
_NAMES_ONLY: Final = ("View (", "SubqueryAlias ", "CollectMetrics ")

_PARTS: Final = {
    "stateful": "stateful operators (grouping, aggregates, joins)",
    "sink": "target",
    "sources": "sources' format (the backend)",
    "below": "expressions below the state",
}


class PlanChanged(PipelineError):
    pass


def plan_text(frame: DataFrame) -> str:
    """The analysed plan. Spark leaves out columns after the 25th unless the session allows more."""
    conf, name = frame.sparkSession.conf, "spark.sql.debug.maxToStringFields"
    before = conf.get(name, "25") or "25"
    conf.set(name, "100000")
    try:
        return str(frame._jdf.queryExecution().analyzed().toString())
    finally:
        conf.set(name, before)


def is_update_plan(text: str) -> bool:
    """Whether the plan has a streaming aggregation without a watermark, which only update mode can write row by row."""
    return bool(re.search(r"^[\s:+|-]*~?Aggregate\b", text, re.MULTILINE)) and "EventTimeWatermark" not in text


def shape_of(text: str, sink: str) -> dict[str, object]:
    operators = [
        _EXPRESSION_ID.sub("", f"{match[1]}{match[2]}").strip()
        for line in text.splitlines()
        if (match := _STATEFUL.match(line))
    ]
    sources = sorted(set(_SOURCE.findall(text)))
    return {"stateful": operators, "sink": sink, "sources": sources, "below": _below_state(text)}


def _below_state(text: str) -> list[str]:
    """The operators that keep state and everything below them, without ids, addresses and names of views."""
    tree = [_node(line) for line in text.splitlines() if line.strip()]
    kept: list[str] = []
    inside: int | None = None
    for at, (depth, operator) in enumerate(tree):
        if inside is not None and depth <= inside:
            inside = None
        if inside is None and _keeps_state(tree, at):
            inside = depth
        if inside is not None and not operator.removeprefix("~").startswith(_NAMES_ONLY):
            kept.append(operator)
    numbers: dict[str, int] = {}
    return [_NUMBERED.sub(lambda match: f"#{numbers.setdefault(match[1], len(numbers))}", line) for line in kept]


def _node(line: str) -> tuple[int, str]:
    operator = line.lstrip(" :+-|")
    if source := _SOURCE.search(operator):
        operator = f"~source {source[1]}"
    return len(line) - len(line.lstrip(" :+-|")), _RANDOM.sub("", operator).strip()


def _keeps_state(tree: list[tuple[int, str]], at: int) -> bool:
    depth, operator = tree[at]
    if not operator.startswith("~Join"):
        return bool(_KEEPS_STATE.match(operator))
    # A join keeps state only if both sides are streams.
    sides: list[str] = []
    for below, child in tree[at + 1 :]:
        if below <= depth:
            break
        if below == depth + _STEP:
            sides.append(child)
    return all(side.startswith("~") for side in sides)


# Columns by which Spark indents a child.
_STEP: Final = 3


def stored_shape(checkpoint: Path) -> dict[str, object] | None:
    """The shape of the query that made the checkpoint."""
    file = checkpoint / FILE_NAME
    return json.loads(file.read_text()) if file.exists() else None


def guard(checkpoint: Path, flow: str, shape: dict[str, object], *, accept: bool = False) -> None:
    """Raises PlanChanged if a query of another shape made the checkpoint. Otherwise stores the shape."""
    before = stored_shape(checkpoint)
    if before is None:
        if (checkpoint / "offsets").is_dir() and any((checkpoint / "offsets").iterdir()):
            return
        checkpoint.mkdir(parents=True, exist_ok=True)
        store_shape(checkpoint, {**shape, "flow": flow})
        return
    for part, words in _PARTS.items():
        if part not in before or before[part] == shape[part]:
            continue
        is_safe = part == "below"
        if is_safe and accept:
            continue
        raise PlanChanged(_refusal(flow, words, before[part], shape[part], is_safe=is_safe))
    # Checkpoints of earlier versions get the parts that they lack.
    store_shape(checkpoint, {"flow": flow, **before, **shape})


def store_shape(checkpoint: Path, shape: dict[str, object]) -> None:
    (checkpoint / FILE_NAME).write_text(json.dumps(shape, indent=1))


def _refusal(flow: str, words: str, before: object, now: object, *, is_safe: bool) -> str:
    old, new = _difference(before, now)
    ways = "go back to the old definition, give the flow a new name"
    if is_safe:
        ways += ", keep the old state and go on with --accept-changed-query"
    return (
        f"flow {flow!r}: its {words} changed since the checkpoint was made: was {old}, is {new}; {ways}, or drop what "
        f"it remembers with 'headrace pipeline reset DIR --flow {flow} --to earliest'"
    )


def _difference(before: object, now: object) -> tuple[str, str]:
    """The first lines that differ, or both values."""
    if isinstance(before, list) and isinstance(now, list):
        pairs = list(itertools.zip_longest(before, now, fillvalue="nothing"))
        before, now = next((pair for pair in pairs if pair[0] != pair[1]), (before, now))
    return _short(before), _short(now)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "…"
