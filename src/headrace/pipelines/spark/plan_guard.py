"""Rejects a checkpoint that does not fit a changed flow. Spark would fail late or, worse, give wrong results.

A checkpoint fits one shape of query: its sources (topics), its stateful operators (grouping keys, aggregates, joins)
and its sink. The guard stores this shape next to the checkpoint and compares it at the next start. The error message
shows the difference. Stateless changes (another filter, another column) are allowed.
"""

from __future__ import annotations

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


_PARTS: Final = {
    "stateful": "stateful operators (grouping, aggregates, joins)",
    "sink": "target",
    "sources": "sources' format (the backend)",
}


class PlanChanged(PipelineError):
    pass


def plan_text(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed().toString())


def is_update_plan(text: str) -> bool:
    """Whether the plan has a streaming aggregation without a watermark, which only update mode can write row by row."""
    return bool(re.search(r"^[\s:+|-]*~?Aggregate\b", text, re.MULTILINE)) and "EventTimeWatermark" not in text


def shape_of(text: str, sink: str) -> dict[str, object]:
    operators = [
        _EXPRESSION_ID.sub("", f"{match[1]}{match[2]}").strip()
        for line in text.splitlines()
        if (match := _STATEFUL.match(line))
    ]
    return {"stateful": operators, "sink": sink, "sources": sorted(set(_SOURCE.findall(text)))}


def guard(checkpoint: Path, flow: str, shape: dict[str, object]) -> None:
    """Raises PlanChanged if a query of another shape made the checkpoint. Otherwise stores the shape."""
    file = checkpoint / FILE_NAME
    if not file.exists():
        if (checkpoint / "offsets").is_dir() and any((checkpoint / "offsets").iterdir()):
            return
        checkpoint.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(shape, indent=1))
        return
    before = json.loads(file.read_text())
    for part, words in _PARTS.items():
        if part in before and before[part] != shape[part]:
            raise PlanChanged(
                f"flow {flow!r}: its {words} changed since the checkpoint was made: was {_short(before.get(part))}, "
                f"is {_short(shape[part])}; go back to the old definition, give the flow a new name, or drop what it "
                f"remembers with 'headrace pipeline reset DIR --flow {flow} --to earliest'"
            )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "…"
