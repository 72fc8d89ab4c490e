"""Delta tables. Every commit carries one transaction action per partition of the topic: application
`headrace/<topic id>/<partition>`, version = the offset after the last record in the table. Delta keeps these actions in
its checkpoints, so they survive the cleanup of old log files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from headrace.pipelines.errors import PipelineError
from headrace.tables.formats.evolution import in_columns
from headrace.tables.formats.table_files import refuse_used_path
from headrace.tables.formats.table_log import (
    DELETED,
    OFFSETS,
    TOPIC,
    TOPIC_ID,
    CommitTaken,
    DataFile,
    Offsets,
    TableLog,
)

DELTA: Final = "delta"


@dataclass(frozen=True)
class DeltaSnapshot:
    table: DeltaTable
    topic_id: str

    @property
    def version(self) -> int:
        return int(self.table.version())

    @cached_property
    def offsets(self) -> Offsets:
        offsets = Offsets()
        while (version := self.table.transaction_version(application(self.topic_id, len(offsets)))) is not None:
            offsets[len(offsets)] = version
        return offsets

    @property
    def columns(self) -> pa.Schema:
        return pa.schema(self.table.schema().to_arrow())

    @property
    def partition_columns(self) -> list[str]:
        return list(self.table.metadata().partition_columns)

    def rows(self) -> int:
        return int(self.table.count())

    def files(self) -> list[str]:
        return list(self.table.file_uris())

    def dataset(self) -> ds.Dataset:
        return self.table.to_pyarrow_dataset()


def application(topic_id: str, partition: int) -> str:
    return f"headrace/{topic_id}/{partition}"


class DeltaLog(TableLog):
    kind = DELTA

    def exists(self) -> bool:
        return bool(DeltaTable.is_deltatable(self.path))

    def _table(self) -> DeltaTable:
        try:
            return DeltaTable(self.path)
        except TableNotFoundError as error:
            raise PipelineError(f"{self.path} holds no Delta table: create it with 'headrace tables create'") from error
        except (DeltaError, OSError) as error:
            raise PipelineError(f"{self.path}: {' '.join(str(error).split())}") from error

    def open(self) -> DeltaSnapshot:
        return DeltaSnapshot(self._table(), self.topic_id)

    def settings(self) -> Mapping[str, str]:
        return {name: str(value) for name, value in self._table().metadata().configuration.items()}

    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        refuse_used_path(self.path)
        try:
            DeltaTable.create(
                self.path,
                schema=Schema.from_arrow(schema),
                mode="error",
                partition_by=list(partition_by),
                name=self.topic,
                description=f"topic {self.topic}, written by Headrace",
                configuration={TOPIC: self.topic, TOPIC_ID: self.topic_id},
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            raise self.failed(error) from error

    def _properties(self, ends: Offsets) -> CommitProperties:
        transactions = [Transaction(application(self.topic_id, index), end) for index, end in sorted(ends.items())]
        named = {OFFSETS: json.dumps({self.topic: ends}, sort_keys=True)}
        return CommitProperties(custom_metadata=named, app_transactions=transactions, max_commit_retries=0)

    def _try(self, commit: Callable[[], object]) -> None:
        try:
            commit()
        except CommitFailedError as error:
            raise CommitTaken from error
        except (DeltaError, OSError) as error:
            raise self.failed(error) from error

    def _append(self, found: DeltaSnapshot, files: Sequence[DataFile], ends: Offsets, now_ms: int) -> None:  # type: ignore[override]
        actions = [
            AddAction(file.path, file.size_bytes, dict(file.partition_values), now_ms, True, file.stats)
            for file in files
        ]
        table = found.table
        self._try(
            lambda: table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                found.partition_columns,
                commit_properties=self._properties(ends),
            )
        )

    def _upsert(self, found: DeltaSnapshot, latest: pa.Table, key: str, ends: Offsets) -> None:  # type: ignore[override]
        merge = found.table.merge(
            latest,
            f"t.`{key}` = s.`{key}`",
            source_alias="s",
            target_alias="t",
            commit_properties=self._properties(ends),
        )
        columns = {f"`{name}`": f"s.`{name}`" for name in latest.column_names if name != DELETED}
        merge = merge.when_matched_delete(f"s.{DELETED}").when_matched_update(columns)
        self._try(merge.when_not_matched_insert(columns, f"NOT s.{DELETED}").execute)

    def _evolve(self, found: DeltaSnapshot, schema: pa.Schema) -> None:  # type: ignore[override]
        old, properties = found.columns, self._properties(found.offsets)
        added = [field for field in Schema.from_arrow(schema).fields if field.name not in old.names]
        if all(old.field(name).type == schema.field(name).type for name in old.names):
            self._try(lambda: found.table.alter.add_columns(added, commit_properties=properties))
            return
        # deltalake cannot change the type of a column in place: the same rows are written again in one commit.
        batches = (in_columns(batch, schema) for batch in found.dataset().to_batches())
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        self._try(
            lambda: write_deltalake(
                found.table,
                rows,
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=found.partition_columns or None,
                commit_properties=properties,
            )
        )

    def compact(self, target_size_bytes: int, keep_hours: int) -> dict[str, int]:
        metrics = self._table().optimize.compact(target_size=target_size_bytes)
        table = self._table()
        removed = table.vacuum(keep_hours, dry_run=False, enforce_retention_duration=False)
        table.create_checkpoint()
        table.cleanup_metadata()
        return {
            "files_joined": int(metrics["numFilesRemoved"]),
            "files_written": int(metrics["numFilesAdded"]),
            "files_removed": len(removed),
        }

    def forget(self, files: Sequence[str]) -> None:
        # Delta takes all missing files out of the newest version.
        self._table().repair()
