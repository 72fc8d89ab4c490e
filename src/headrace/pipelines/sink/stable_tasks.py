"""The same tasks each time a batch is repeated, whatever source it comes from.

The exactly-once sink counts by task: "slot 3 has written batch 17". Our own source gives a repeated batch the same
tasks. Spark's own connector does not promise it: it numbers its tasks in the order in which a hash map happens to hold
the partitions, and after a restart that map is built from the checkpoint instead of from the broker's answer. Then slot
0 is another partition, whose rows the ledger takes for written: they are lost, and those of the other are doubled.

So rows that come from that connector are dealt to tasks by what they are, not by where they were read: by their key, or
by their value where there is none. Rows of one key keep their order. Spark's checkpoint keeps the number of tasks of a
shuffle.
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
    """The frame as the sink may count it; unchanged where the tasks are stable anyway or nobody counts."""
    counted = isinstance(target, Sink) and target.format == "headrace" and not _at_least_once(target.options)
    if not counted or configuration.get(FORMAT, "headrace") == "headrace":
        return frame
    dealt = f.xxhash64("value")
    if "key" in frame.columns:
        dealt = f.when(f.col("key").isNotNull(), f.xxhash64("key")).otherwise(dealt)
    return frame.repartition(dealt)


def _at_least_once(options: Mapping[str, str]) -> bool:
    return options.get("mode", "exactly-once").lower() == "at-least-once"
