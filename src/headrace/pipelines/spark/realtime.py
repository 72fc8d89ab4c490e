"""Real-time mode: a record passes as soon as it comes, in milliseconds, instead of waiting for a micro-batch.

    configuration:
      headrace.trigger.realtime: "5 minutes"       # how often the checkpoint is written

Only Spark's own connector can do it, at both ends, and it writes at least once: a flow says that it can live with
doubles by `mode=at-least-once` on its sink. A restart goes back to the last checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.pipelines.output import Output, Sink

from headrace.pipelines.errors import PipelineError

_OURS: Final = ("mode", "transactionalIdPrefix", "ledgerTopic")


def connector_sink(flow: str, target: Output) -> dict[str, str]:
    """The options with which Spark's own sink writes to this target. Raises PipelineError when it cannot."""
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
