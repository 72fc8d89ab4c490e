"""Iceberg tables. Every snapshot of ours carries the topic's offsets in its summary (`headrace.offsets`). A snapshot of
another program, such as a compaction by Spark, has none: the newest ancestor that has them counts.

The catalog decides between two commits: a SQL catalog (a SQLite file beside the definitions by default, or PostgreSQL),
or a REST catalog. pyiceberg would try a lost commit again on top of the other one, which could double rows, so
`commit.retry.num-retries` is 0 and `TableLog` decides by the offsets.

Rows are changed by copy on write: there are no delete files of ours. Partitions are Iceberg's own transforms, so every
column stays in the files.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, RESTError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotsUpdate
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import PrimitiveType
from sqlalchemy.exc import SQLAlchemyError

from headrace.pipelines.errors import PipelineError
from headrace.tables.formats.file_set import FileFacts, dataset_of
from headrace.tables.formats.hadoop_uris import is_hadoop
from headrace.tables.formats.iceberg_upkeep import (
    MOST_SNAPSHOTS,
    join_small_files,
    remove_unused_files,
    unneeded_before,
    unneeded_snapshots,
)
from headrace.tables.formats.table_files import PRUNED, Layout, refuse_used_path, write_file
from headrace.tables.formats.table_log import (
    DELETED,
    OFFSETS,
    TOPIC,
    TOPIC_ID,
    CommitTaken,
    DataFile,
    Offsets,
    Snapshot,
    TableLog,
)

ICEBERG: Final = "iceberg"
NAMESPACE: Final = "headrace"
_PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    # One small manifest per commit would make every later commit and scan slower.
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


@dataclass(frozen=True)
class IcebergSnapshot:
    table: Table

    @property
    def version(self) -> int:
        found = self.table.current_snapshot()
        return 0 if found is None else int(found.sequence_number or 0)

    @cached_property
    def offsets(self) -> Offsets:
        found = self.table.current_snapshot()
        while found is not None:
            if found.summary is not None and (text := found.summary.get(OFFSETS)):
                return {int(index): int(offset) for index, offset in json.loads(text).items()}
            found = self.table.snapshot_by_id(found.parent_snapshot_id) if found.parent_snapshot_id else None
        return {}

    @cached_property
    def columns(self) -> pa.Schema:
        found = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        return pa.schema([pa.field(field.name, _plain(field.type), True) for field in found])

    @property
    def partition_columns(self) -> list[str]:
        schema = self.table.schema()
        return [
            "day" if isinstance(field.transform, DayTransform) else str(schema.find_column_name(field.source_id))
            for field in self.table.spec().fields
        ]

    @cached_property
    def _files(self) -> list[IcebergFile]:
        return [task.file for task in self.table.scan().plan_files()]

    def rows(self) -> int:
        found = self.table.current_snapshot()
        return 0 if found is None or found.summary is None else int(found.summary.get("total-records") or 0)

    def files(self) -> list[str]:
        return [_local(file.file_path) for file in self._files]

    def dataset(self) -> ds.Dataset:
        if any(task.delete_files for task in self.table.scan().plan_files()):
            # Another program deleted rows by delete files.
            return ds.dataset(self.table.scan().to_arrow())
        return self.data_files()

    def data_files(self) -> ds.Dataset:
        fields = {
            field.field_id: (field.name, field.field_type)
            for field in self.table.schema().fields
            if field.name in PRUNED and isinstance(field.field_type, PrimitiveType)
        }
        facts = []
        for file in self._files:
            lows, highs, nulls = file.lower_bounds or {}, file.upper_bounds or {}, file.null_value_counts or {}
            bounds = {
                name: (from_bytes(kind, lows[index]), from_bytes(kind, highs[index]))
                for index, (name, kind) in fields.items()
                if index in lows and index in highs and nulls.get(index) == 0
            }
            facts.append(FileFacts(_local(file.file_path), bounds))
        return dataset_of(facts, self.columns)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Iceberg's Arrow types have 64-bit lengths; the rows of topics have not."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type), True) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return kind


def _local(uri: str) -> str:
    return uri.removeprefix("file://")


def catalog_of(address: str, path: str) -> Catalog:
    """`http(s)://…` is a REST catalog; everything else is the address of a database."""
    settings = {"type": "rest" if address.startswith(("http://", "https://")) else "sql", "uri": address}
    if is_hadoop(path):
        settings["py-io-impl"] = "headrace.tables.formats.iceberg_files.HadoopFileIO"
    elif endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        # pyiceberg has a name of its own for what every AWS library takes from the environment.
        settings["s3.endpoint"] = endpoint
    try:
        return load_catalog("headrace", warehouse=path, **settings)
    except Exception as error:
        # Boundary to the drivers of catalogs, which raise their own errors.
        raise PipelineError(f"catalog {address!r}: {' '.join(str(error).split())}") from error


class IcebergLog(TableLog):
    kind = ICEBERG

    def __init__(self, path: str, topic: str, topic_id: str, catalog: str, keep_hours: int) -> None:
        super().__init__(path, topic, topic_id)
        self._keep_hours = keep_hours
        self._address, self._name = catalog, (NAMESPACE, topic)

    @cached_property
    def _catalog(self) -> Catalog:
        return catalog_of(self._address, self.path)

    def _load(self) -> Table | None:
        try:
            return self._catalog.load_table(self._name)
        except NoSuchTableError:
            return None
        except (SQLAlchemyError, OSError, RESTError) as error:
            raise PipelineError(f"catalog {self._address!r}: {' '.join(str(error).split())}") from error

    def exists(self) -> bool:
        return self._load() is not None

    def table(self) -> Table:
        found = self._load()
        if found is None:
            raise PipelineError(
                f"catalog {self._address!r} holds no table {'.'.join(self._name)!r}: create it with "
                "'headrace tables create'"
            )
        return found

    def open(self) -> IcebergSnapshot:
        return IcebergSnapshot(self.table())

    def _settings(self, found: IcebergSnapshot) -> Mapping[str, str]:  # type: ignore[override]
        return found.table.properties

    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        refuse_used_path(self.path)
        location = self.path if "://" in self.path else f"file://{self.path}"
        identity = {TOPIC: self.topic, TOPIC_ID: self.topic_id}
        try:
            self._catalog.create_namespace_if_not_exists(NAMESPACE)
            with self._catalog.create_table_transaction(
                self._name, schema, location=location, properties={**_PROPERTIES, **identity}
            ) as creation:
                for column in partition_by:
                    with creation.update_spec() as spec:
                        if column == "day":
                            spec.add_field("timestamp" if "timestamp" in schema.names else "_timestamp", DayTransform())
                        else:
                            spec.add_field(column, IdentityTransform(), f"{column}_value")
        except TableAlreadyExistsError as error:
            raise PipelineError(f"catalog {self._address!r} has the table of topic {self.topic!r} already") from error
        except (OSError, SQLAlchemyError, RESTError, ValueError) as error:
            raise self.failed(error) from error

    def unregister(self) -> None:
        self._catalog.drop_table(self._name)

    def _summary(self, ends: Offsets) -> dict[str, str]:
        return {OFFSETS: json.dumps(ends, sort_keys=True)}

    def _try(self, commit: Callable[[], object]) -> None:
        try:
            commit()
        except CommitFailedException as error:
            raise CommitTaken from error
        except (OSError, SQLAlchemyError, RESTError) as error:
            raise self.failed(error) from error

    def _uri(self, table: Table, path: str) -> str:
        return f"{table.location()}/{path}"

    def _append(self, found: IcebergSnapshot, files: Sequence[DataFile], ends: Offsets, now_ms: int) -> None:  # type: ignore[override]
        table = found.table
        uris = [self._uri(table, file.path) for file in files]
        # Every file has a new name, so the search for files that the table has already is left out.
        self._try(lambda: table.add_files(uris, self._summary(ends), check_duplicate_files=False))
        self._limit_snapshots(table)

    def _upsert(self, found: IcebergSnapshot, latest: pa.Table, key: str, ends: Offsets) -> None:  # type: ignore[override]
        """Files that hold a changed key are written again without it; one new file has the latest rows."""
        table, keys = found.table, latest.column(key).combine_chunks()
        new: list[str] = []
        replaced: list[IcebergFile] = []
        for task in table.scan().plan_files():
            rows = dataset_of([FileFacts(_local(task.file.file_path), {})], found.columns).to_table()
            kept = rows.filter(pc.invert(pc.is_in(rows.column(key), keys)))
            if kept.num_rows < rows.num_rows:
                replaced.append(task.file)
                new += [self._write(table, kept)] if kept.num_rows else []
        alive = latest.filter(pc.invert(latest.column(DELETED))).drop_columns([DELETED])
        new += [self._write(table, alive)] if alive.num_rows else []
        self._try(lambda: self.replace(table, replaced, new, ends))
        self._limit_snapshots(table)

    def _limit_snapshots(self, table: Table) -> None:
        if len(table.metadata.snapshots) > MOST_SNAPSHOTS:
            # The commit before is done. If another one is in the way, the next commit tries it.
            with contextlib.suppress(CommitTaken):
                self._remove_snapshots(self.open(), self._keep_hours)

    def _write(self, table: Table, rows: pa.Table) -> str:
        return self._uri(table, str(write_file(Layout(self.path, rows.schema), rows)["path"]))

    def replace(self, table: Table, old: Sequence[IcebergFile], new: Sequence[str], ends: Offsets) -> None:
        """One snapshot without the old files and with the new ones."""
        with (
            table.transaction() as transaction,
            transaction.update_snapshot(snapshot_properties=self._summary(ends)).overwrite() as change,
        ):
            for file in old:
                change.delete_data_file(file)
            for uri in new:
                change.append_data_file(parquet_file_to_data_file(table.io, table.metadata, uri))

    def _evolve(self, found: IcebergSnapshot, schema: pa.Schema) -> None:  # type: ignore[override]
        def change() -> None:
            with found.table.update_schema() as update:
                update.union_by_name(schema)

        self._try(change)

    def compact(self, target_size_bytes: int, keep_hours: int) -> dict[str, int]:
        done = {"files_joined": 0, "files_written": 0, "files_removed": 0}
        found = self.open()
        for old, rows in join_small_files(found.table, found.columns, target_size_bytes):
            self._replace(old, [self._write(found.table, rows)])
            done["files_joined"] += len(old)
            done["files_written"] += 1
        self._rewrite(lambda found: self._remove_snapshots(found, keep_hours))
        before = unneeded_before(keep_hours, datetime.now(UTC))
        done["files_removed"] = remove_unused_files(self.table(), self.path, before)
        return done

    def _remove_snapshots(self, found: Snapshot, keep_hours: int) -> None:
        assert isinstance(found, IcebergSnapshot)
        table = found.table
        unneeded = unneeded_snapshots(table, keep_hours * 3_600_000, int(time.time() * 1000))
        if unneeded:
            same = (AssertTableUUID(uuid=table.metadata.table_uuid),)
            removal = (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": unneeded}),)
            self._try(lambda: self._catalog.commit_table(table, same, removal))

    def forget(self, files: Sequence[str]) -> None:
        tasks = self.table().scan().plan_files()
        self._replace([task.file for task in tasks if _local(task.file.file_path) in set(files)], [])

    def _replace(self, old: Sequence[IcebergFile], new: Sequence[str]) -> None:
        def attempt(found: Snapshot) -> None:
            assert isinstance(found, IcebergSnapshot)
            self._try(lambda: self.replace(found.table, old, new, found.offsets))

        self._rewrite(attempt)
