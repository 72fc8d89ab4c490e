"""What happens before Spark runs the tables of a directory. They run as a pipeline."""

from __future__ import annotations

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.flows.run_lock import CHECKPOINTS
from headrace.pipelines.flows.spec import PipelineSpec
from headrace.tables.definitions import Definitions


def prepare(spec: PipelineSpec) -> None:
    """Checks that there is a table to run, and deletes Spark's checkpoints of the tables. The table is the checkpoint:
    with Spark's own, a table that was restored to an earlier version would miss the records between the two."""
    if all(item.is_paused for item in Definitions(spec.directory)):
        raise PipelineError(f"{spec.directory} has no table to run: create one with 'headrace tables create TOPIC'")
    for item in Definitions(spec.directory):
        Checkpoint(spec.storage_path / CHECKPOINTS / item.table.topic).forget()
