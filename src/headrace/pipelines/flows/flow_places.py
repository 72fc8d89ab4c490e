"""What a flow reads and writes, as its reports name it: the lineage of a cluster is drawn from these.

Names only. Options of a sink hold addresses and passwords, which a report must not have.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.pipelines.output import Output, Sink, StreamingTable

from headrace.pipelines.flows.graph import BatchSink, ResolvedFlow
from headrace.pipelines.flows.progress import FlowProgress, Place, Places
from headrace.pipelines.flows.running_flow import RunningFlow
from headrace.pipelines.flows.spec import PipelineSpec
from headrace.pipelines.spark.plan_guard import plan_text, shape_of

_INTERVAL: Final = re.compile(r"(\d+)\s*(ms|milliseconds?|s|seconds?|m|min|minutes?|h|hours?)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
# Formats whose sources are topics: the offsets of the flow name them.
_TOPICS: Final = ("headrace", "kafka")
_LONGEST_PLAN: Final = 8_000


def described_flow(item: ResolvedFlow, spec: PipelineSpec, trigger: str | None, places: Places | None) -> RunningFlow:
    """A flow with the part of its report that stays the same. `places`: of a connector, which knows them better than
    its plan."""
    plan = plan_text(item.frame)
    sources = shape_of(plan, "").get("sources")
    progress = FlowProgress(spec.name, item.flow.name)
    progress.target = None if item.writes_dead_letters else target_of(item.target)
    progress.origins = [
        Place(kind="source", name=str(name)) for name in (sources if isinstance(sources, list) else ())
        if str(name) not in _TOPICS
    ]  # fmt: skip
    if places is not None:
        progress.origins = places["origins"]
        progress.target = None if item.writes_dead_letters else places["target"]
    conf = {**spec.configuration, **item.flow.spark_conf}
    progress.trigger_ms = interval_ms(trigger or conf.get("headrace.trigger.interval"))
    return RunningFlow(item, progress, plan=plan[:_LONGEST_PLAN])


def target_of(target: Output) -> Place:
    if isinstance(target, StreamingTable):
        return Place(kind="table", name=str(target.name))
    if isinstance(target, BatchSink):
        return Place(kind="database", name=str(target.name))
    if isinstance(target, Sink) and target.format in _TOPICS:
        return Place(kind="topic", name=str(target.options.get("topic") or ""))
    if isinstance(target, Sink):
        return Place(kind=str(target.format), name=str(target.name))
    return Place(kind="table", name=str(target.name))


def interval_ms(text: str | None) -> int | None:
    """Milliseconds of `10 seconds`; None for none or one that only Spark understands."""
    match = _INTERVAL.fullmatch((text or "").strip().lower())
    if match is None:
        return None
    unit = "ms" if match[2].startswith(("ms", "mil")) else match[2][0]
    return int(match[1]) * _UNITS_MS[unit]
