"""The pipeline directory of the tables of a cluster: one definition file per table.

    tables/spark-pipeline.yml            brokers and storage, as in every pipeline
    tables/transformations/orders.py     the table of topic orders
    tables/paused/clicks.py              a table that does not run now

`headrace pipeline run tables` runs the same directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient, TopicMetadata
from headrace.pipelines.errors import PipelineError, nearest
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.flows.run_lock import CHECKPOINTS
from headrace.pipelines.flows.spec import load_spec
from headrace.tables.formats.table_log import TableLog
from headrace.tables.lake_table import LakeTable, definition_text, read_definition
from headrace.tables.table_logs import log_of

RUNNING: Final = "transformations"
PAUSED: Final = "paused"
_SPEC: Final = """# The tables of a cluster. Run them with: headrace tables run
name: {name}
storage: storage
configuration:
  headrace.bootstrap.servers: "{bootstrap}"
libraries:
  - glob: {{include: transformations/**}}
"""


@dataclass(frozen=True)
class Definition:
    table: LakeTable
    file: Path

    @property
    def is_paused(self) -> bool:
        return self.file.parent.name == PAUSED

    @property
    def log(self) -> TableLog:
        return log_of(self.table)


@dataclass(frozen=True)
class Definitions:
    directory: Path

    def __iter__(self) -> Iterator[Definition]:
        for folder in (RUNNING, PAUSED):
            for file in sorted((self.directory / folder).glob("*.py")):
                yield Definition(read_definition(file), file)

    def of(self, topic: str) -> Definition:
        known = {item.table.topic: item for item in self}
        if topic not in known:
            raise PipelineError(f"topic {topic!r} has no table in {self.directory}{nearest(topic, known)}")
        return known[topic]

    def add(self, table: LakeTable, bootstrap: str) -> Path:
        spec = self.directory / "spark-pipeline.yml"
        file = self.directory / RUNNING / f"{table.topic}.py"
        self.refuse_known(table.topic)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not spec.exists():
            spec.write_text(_SPEC.format(name=self.directory.resolve().name, bootstrap=bootstrap))
        elif (found := load_spec(self.directory)).is_local:
            # With that of a dropped table of this topic, `pipeline run` would go on after the old records.
            Checkpoint(found.storage_path / CHECKPOINTS / table.topic).forget()
        file.write_text(definition_text(table))
        return file

    def refuse_known(self, topic: str) -> None:
        if any(item.table.topic == topic for item in self):
            raise PipelineError(f"topic {topic!r} has a table in {self.directory} already")

    def move(self, topic: str, folder: str) -> bool:
        """Pauses or resumes a table. Returns whether anything changed."""
        found = self.of(topic)
        if found.file.parent.name == folder:
            return False
        target = self.directory / folder / found.file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        found.file.rename(target)
        return True


def topic_metadata(client: BlockingClient, topic: str) -> TopicMetadata:
    found = client.topics([topic])
    if topic not in found:
        raise PipelineError(f"topic {topic!r} does not exist{nearest(topic, client.topics(None))}")
    return found[topic]


def first_offsets(client: BlockingClient, topic: TopicMetadata, backfill: str, time_ms: int | None) -> dict[int, int]:
    """Where a new table begins: at the first record, at the end, or at a time."""
    pairs = [(topic.name, index) for index in topic.partitions]
    ends = client.list_offsets(dict.fromkeys(pairs, LATEST), isolation=READ_COMMITTED)
    if backfill == "none":
        return {index: ends[(topic.name, index)] for index in topic.partitions}
    found = client.list_offsets(dict.fromkeys(pairs, EARLIEST if time_ms is None else time_ms))
    return {index: ends[pair] if found[pair] < 0 else found[pair] for pair in pairs for index in [pair[1]]}
