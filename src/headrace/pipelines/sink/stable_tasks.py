"""Gives a repeated batch the same tasks as before, for every source.

The ledger of the exactly-once sink has entries per task: "slot 3 has written batch 17". Our own source gives a repeated
batch the same tasks. Spark's own connector does not: it numbers its tasks in the iteration order of a hash map of
partitions, and after a restart it builds that map from the checkpoint instead of the broker's answer. Slot 0 may then
be another partition. The sink would skip its rows (lost) and write those of the former slot 0 again (duplicated).

So rows from that connector are distributed to tasks by the hash of their key, or of their value if they have no key.
Rows with the same key keep their order. Spark's checkpoint keeps the number of shuffle tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.pipelines.output import Output, Sink
from pyspark.sql import functions as f

from headrace.pipelines.flows.spec import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stable_tasks(frame: DataFrame, target: Output, configuration: Mapping[str, str]) -> DataFrame:
    """The frame with stable tasks. Unchanged if its tasks are stable already or the sink has no ledger."""
    counted = isinstance(target, Sink) and target.format == "headrace" and not _at_least_once(target.options)
    if not counted or configuration.get(FORMAT, "headrace") == "headrace":
        return frame
    dealt = f.xxhash64("value")
    if "key" in frame.columns:
        dealt = f.when(f.col("key").isNotNull(), f.xxhash64("key")).otherwise(dealt)
    return frame.repartition(dealt)


def _at_least_once(options: Mapping[str, str]) -> bool:
    return options.get("mode", "exactly-once").lower() == "at-least-once"
