"""The log of a Delta table as the checkpoint of its topic.

Every commit carries one transaction action per partition of the topic: application `headrace/<topic id>/<partition>`,
version = the offset after the last record in the table. Delta keeps these actions in its checkpoints, so they survive
the cleanup of old log files. A reader of one version of the table gets rows and offsets that belong together.

A commit names the version that it was planned on and fails if another commit took its place. Then the offsets decide:
if they have not moved (a compaction, for example), the commit is tried again; if they have, another writer is at work,
and this one stops. So two writers at once, a repeated batch and a lost Spark checkpoint neither lose nor double a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from headrace.kernel.plurals import counted
from headrace.pipelines.errors import PipelineError

_TOPIC: Final = "headrace.topic"
_TOPIC_ID: Final = "headrace.topic.id"
_ATTEMPTS: Final = 10
Offsets = dict[int, int]


class TableConflict(PipelineError):
    """Another writer moved the table's offsets."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file that an executor wrote below the table's path."""

    path: str
    size_bytes: int
    rows: int
    partition_values: Mapping[str, str]
    stats: str

    def action(self, written_ms: int) -> AddAction:
        return AddAction(self.path, self.size_bytes, dict(self.partition_values), written_ms, True, self.stats)


@dataclass
class DeltaLog:
    path: str
    topic: str
    topic_id: str

    @classmethod
    def create(
        cls, path: str, topic: str, topic_id: str, schema: pa.Schema, partition_by: Sequence[str], starts: Offsets
    ) -> DeltaLog:
        """Creates the table with its first offsets, or attaches to the table that an earlier call created."""
        log = cls(path, topic, topic_id)
        if DeltaTable.is_deltatable(path):
            log.check(schema, partition_by)
        else:
            DeltaTable.create(
                path,
                schema=Schema.from_arrow(schema),
                mode="error",
                partition_by=list(partition_by),
                name=topic,
                description=f"topic {topic}, written by Headrace",
                configuration={_TOPIC: topic, _TOPIC_ID: topic_id},
                raise_if_key_not_exists=False,
            )
        if not log.offsets():
            log.append([], starts, {}, 0)
        return log

    def open(self) -> DeltaTable:
        try:
            return DeltaTable(self.path)
        except TableNotFoundError as error:
            raise PipelineError(f"{self.path} holds no Delta table: create it with 'headrace tables create'") from error
        except (DeltaError, OSError) as error:
            raise PipelineError(f"{self.path}: {' '.join(str(error).split())}") from error

    def check(self, schema: pa.Schema | None = None, partition_by: Sequence[str] = ()) -> DeltaTable:
        """Raises PipelineError unless the path holds the table of this very topic, with this schema and folders."""
        table = self.open()
        settings = table.metadata().configuration
        if _TOPIC_ID not in settings:
            raise PipelineError(f"{self.path} holds another table, not the one of topic {self.topic!r}: choose a path")
        if settings[_TOPIC] != self.topic:
            raise PipelineError(f"{self.path} holds the table of topic {settings[_TOPIC]!r}: choose another path")
        if settings[_TOPIC_ID] != self.topic_id:
            raise PipelineError(
                f"topic {self.topic!r} was deleted and created again (its id was {settings[_TOPIC_ID]} and is "
                f"{self.topic_id}): the table {self.path} holds the old topic; create a table with another path"
            )
        if schema is not None and pa.schema(table.schema().to_arrow()).names != schema.names:
            raise PipelineError(
                f"{self.path}: the table has the columns {', '.join(pa.schema(table.schema().to_arrow()).names)}, "
                f"not {', '.join(schema.names)}"
            )
        if schema is not None and table.metadata().partition_columns != list(partition_by):
            folders = ", ".join(table.metadata().partition_columns) or "nothing"
            raise PipelineError(f"{self.path}: the table is partitioned by {folders}, which cannot change")
        return table

    def columns(self) -> pa.Schema:
        return pa.schema(self.open().schema().to_arrow())

    def _application(self, partition: int) -> str:
        return f"headrace/{self.topic_id}/{partition}"

    def offsets(self, table: DeltaTable | None = None) -> Offsets:
        """The offset after the last record of each partition. A partition that the topic got later may be missing."""
        found, offsets = table or self.open(), Offsets()
        # Partitions have the numbers 0, 1, 2 …; `_commit` leaves no gap.
        while (version := found.transaction_version(self._application(len(offsets)))) is not None:
            offsets[len(offsets)] = version
        return offsets

    def _properties(self, ends: Offsets) -> CommitProperties:
        transactions = [Transaction(self._application(index), end) for index, end in sorted(ends.items())]
        named = {"headrace.offsets": json.dumps({self.topic: ends}, sort_keys=True)}
        return CommitProperties(custom_metadata=named, app_transactions=transactions, max_commit_retries=0)

    def append(self, files: Sequence[DataFile], ends: Offsets, expected: Offsets, now_ms: int) -> None:
        """Adds files and moves the offsets to `ends`, if they are `expected` now."""

        def commit(table: DeltaTable, all_ends: Offsets) -> None:
            table.create_write_transaction(
                [file.action(now_ms) for file in files],
                "append",
                table.schema(),
                table.metadata().partition_columns,
                commit_properties=self._properties(all_ends),
            )

        self._commit(commit, ends, expected)

    def upsert(self, latest: pa.Table, ends: Offsets, expected: Offsets) -> None:
        """Merges the latest record of each key: a null value deletes the key."""

        def commit(table: DeltaTable, all_ends: Offsets) -> None:
            properties = self._properties(all_ends)
            merge = table.merge(
                latest, "t.key = s.key", source_alias="s", target_alias="t", commit_properties=properties
            )
            merge = merge.when_matched_delete("s.value IS NULL").when_matched_update_all()
            merge.when_not_matched_insert_all("s.value IS NOT NULL").execute()

        self._commit(commit, ends, expected)

    def _commit(self, commit: Callable[[DeltaTable, Offsets], None], ends: Offsets, expected: Offsets) -> None:
        for _ in range(_ATTEMPTS):
            table = self.open()
            found = self.offsets(table)
            if found != expected:
                raise TableConflict(
                    f"{self.path}: another writer moved the table of topic {self.topic!r} to the offsets {found}; "
                    f"this one expected {expected}: keep one writer for a table"
                )
            try:
                commit(table, {**dict.fromkeys(range(max(ends, default=0)), 0), **found, **ends})
                return
            except CommitFailedError:
                # Another commit took the version. The offsets say whether it was a writer.
                continue
            except (DeltaError, OSError) as error:
                raise PipelineError(f"{self.path}: the commit failed: {' '.join(str(error).split())}") from error
        raise TableConflict(f"{self.path}: {counted(_ATTEMPTS, 'commit')} in a row found another commit in their place")

    def compact(self, target_size_bytes: int, keep_hours: int) -> dict[str, int]:
        """Joins small files into larger ones, and removes files that no version of the last hours needs."""
        table = self.open()
        metrics = table.optimize.compact(target_size=target_size_bytes)
        table = self.open()
        removed = table.vacuum(keep_hours, dry_run=False, enforce_retention_duration=False)
        table.create_checkpoint()
        table.cleanup_metadata()
        return {
            "files_joined": int(metrics["numFilesRemoved"]),
            "files_written": int(metrics["numFilesAdded"]),
            "files_removed": len(removed),
        }
