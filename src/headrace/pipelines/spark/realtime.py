"""Real-time mode: Spark processes a record in milliseconds, as soon as it arrives, without waiting for a micro-batch.

    configuration:
      headrace.trigger.realtime: "5 minutes"       # interval of checkpoints

It needs Spark's own connector as source and sink, which writes at least once. So the sink of the flow must have
`mode=at-least-once`, which accepts duplicates. A restart continues at the last checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.pipelines.output import Output, Sink

from headrace.pipelines.errors import PipelineError

_OURS: Final = ("mode", "transactionalIdPrefix", "ledgerTopic")


def connector_sink(flow: str, target: Output) -> dict[str, str]:
    """Options for Spark's own sink to write to this target. Raises PipelineError if it cannot."""
    if not isinstance(target, Sink) or target.format not in ("headrace", "kafka"):
        raise PipelineError(
            f"flow {flow!r} writes to {target.name!r}, which is no topic: in real-time mode only topics can be written"
        )
    options: Mapping[str, str] = target.options
    if target.format == "headrace" and options.get("mode", "exactly-once").lower() != "at-least-once":
        raise PipelineError(
            f"flow {flow!r} writes to {target.name!r} exactly once, which real-time mode cannot: "
            'say "mode": "at-least-once" in the sink\'s options, or leave real-time mode out'
        )
    return {name: value for name, value in options.items() if name not in _OURS}
