"""Delta tables. Every commit carries one transaction action per partition of the topic: application
`headrace/<topic id>/<partition>`, version = the offset after the last record in the table. Delta keeps these actions in
its checkpoints, so they survive the cleanup of old log files."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from headrace.pipelines.errors import PipelineError
from headrace.tables.formats.delta_append import append_entry, entry_of, is_checkpoint_due, may_append
from headrace.tables.formats.evolution import in_columns
from headrace.tables.formats.hadoop_uris import is_hadoop
from headrace.tables.formats.staged_delta import staged_creation, staged_table
from headrace.tables.formats.table_files import file_system, refuse_used_path
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

DELTA: Final = "delta"
_LOG_RETENTION: Final = "delta.logRetentionDuration"
_TOMBSTONE_RETENTION: Final = "delta.deletedFileRetentionDuration"
# `compact` cleans the log up. Delta would list the whole log for it after every commit.
_NO_CLEANUP: Final = PostCommitHookProperties(cleanup_expired_logs=False)


@dataclass(frozen=True)
class DeltaSnapshot:
    path: str
    topic_id: str
    version: int
    columns: pa.Schema
    partition_columns: list[str]
    settings: Mapping[str, str]
    takes_entries: bool
    """Whether Headrace may write the next entry of the log itself."""

    @classmethod
    def of(cls, table: DeltaTable, path: str, topic_id: str) -> DeltaSnapshot:
        metadata = table.metadata()
        settings = {name: str(value) for name, value in metadata.configuration.items()}
        found = cls(
            path,
            topic_id,
            int(table.version()),
            pa.schema(table.schema().to_arrow()),
            list(metadata.partition_columns),
            settings,
            "://" not in path and may_append(table.protocol(), settings),
        )
        found.__dict__["table"] = table
        return found

    def after(self, ends: Offsets) -> DeltaSnapshot:
        """The next version, whose entry Headrace wrote. Only a caller that needs its files makes `deltalake` read."""
        following = replace(self, version=self.version + 1)
        following.__dict__["offsets"] = ends
        return following

    @cached_property
    def table(self) -> DeltaTable:
        try:
            return DeltaTable(self.path, version=self.version)
        except (DeltaError, OSError) as error:
            raise unreadable(self.path, error) from error

    @cached_property
    def offsets(self) -> Offsets:
        offsets = Offsets()
        while (version := self.table.transaction_version(application(self.topic_id, len(offsets)))) is not None:
            offsets[len(offsets)] = version
        return offsets

    def rows(self) -> int:
        return int(self.table.count())

    def files(self) -> list[str]:
        return list(self.table.file_uris())

    def sizes(self) -> dict[str, int]:
        """Sizes of the data files in bytes, by their paths below the table."""
        added = pa.table(self.table.get_add_actions(flatten=True))
        return dict(zip(added.column("path").to_pylist(), added.column("size_bytes").to_pylist(), strict=True))

    def dataset(self) -> ds.Dataset:
        return self.table.to_pyarrow_dataset()

    def data_files(self) -> ds.Dataset:
        return self.dataset()


class _Newest:
    """A version that was opened or committed here, and what tells whether the directory still holds this very version
    as its newest. A table that was dropped and created again has other files."""

    def __init__(self, snapshot: DeltaSnapshot) -> None:
        self.snapshot = snapshot
        self._log = Path(snapshot.path) / "_delta_log"
        self._identity = self._identity_now()

    def is_current(self) -> bool:
        return self.is_there() and not entry_of(self._log, self.snapshot.version + 1).exists()

    def is_there(self) -> bool:
        return self._identity is not None and self._identity == self._identity_now()

    def _identity_now(self) -> tuple[int, int] | None:
        try:
            found = entry_of(self._log, self.snapshot.version).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def unreadable(path: str, error: Exception) -> PipelineError:
    return PipelineError(f"{path}: {' '.join(str(error).split())}")


def application(topic_id: str, partition: int) -> str:
    return f"headrace/{topic_id}/{partition}"


class DeltaLog(TableLog):
    kind = DELTA

    def __init__(self, path: str, topic: str, topic_id: str) -> None:
        super().__init__(path, topic, topic_id)
        self._newest: _Newest | None = None

    def exists(self) -> bool:
        return bool(DeltaTable.is_deltatable(self.path))

    def open(self) -> DeltaSnapshot:
        """The newest version. A writer opens its table twice for each commit, and Delta lists the whole log of a local
        table each time: the version of the last call is taken again if it is still the newest."""
        if self._newest is None or not self._newest.is_current():
            self._newest = None
            found = DeltaSnapshot.of(self._open_table(), self.path, self.topic_id)
            if "://" in self.path:
                return found
            self._newest = _Newest(found)
        return self._newest.snapshot

    def _open_table(self) -> DeltaTable:
        try:
            return DeltaTable(self.path)
        except TableNotFoundError as error:
            raise PipelineError(f"{self.path} holds no Delta table: create it with 'headrace tables create'") from error
        except (DeltaError, OSError) as error:
            raise unreadable(self.path, error) from error

    def _settings(self, found: DeltaSnapshot) -> Mapping[str, str]:  # type: ignore[override]
        return found.settings

    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        refuse_used_path(self.path)
        try:
            with staged_creation(self.path) if is_hadoop(self.path) else nullcontext(self.path) as place:
                self._create_at(place, schema, partition_by)
        except CommitTaken as error:
            raise PipelineError(f"{self.path}: another program created a table there at the same time") from error
        except (DeltaError, OSError) as error:
            raise self.failed(error) from error

    def _create_at(self, place: Path | str, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        DeltaTable.create(
            place,
            schema=Schema.from_arrow(schema),
            mode="error",
            partition_by=list(partition_by),
            name=self.topic,
            description=f"topic {self.topic}, written by Headrace",
            configuration={TOPIC: self.topic, TOPIC_ID: self.topic_id},
            raise_if_key_not_exists=False,
        )

    def _transactions(self, ends: Offsets) -> dict[str, int]:
        return {application(self.topic_id, index): end for index, end in sorted(ends.items())}

    def _named(self, ends: Offsets) -> dict[str, str]:
        return {OFFSETS: json.dumps({self.topic: ends}, sort_keys=True)}

    def _properties(self, ends: Offsets) -> CommitProperties:
        transactions = [Transaction(name, end) for name, end in self._transactions(ends).items()]
        return CommitProperties(custom_metadata=self._named(ends), app_transactions=transactions, max_commit_retries=0)

    def _change(
        self, found: DeltaSnapshot, change: Callable[[DeltaTable], object], reads: Collection[str] = ()
    ) -> None:
        """Commits a change of the table. `reads`: the data files that the change reads, if not only those it adds."""
        try:
            if is_hadoop(self.path):
                with staged_table(self.path, found.version, reads) as table:
                    change(table)
            else:
                change(found.table)
                self._go_on(found)
        except CommitFailedError as error:
            raise CommitTaken from error
        except (DeltaError, OSError) as error:
            raise self.failed(error) from error

    def _go_on(self, found: DeltaSnapshot) -> None:
        if self._newest is None or self._newest.snapshot is not found:
            return
        self._newest = None
        # The caller is done with this version: the object goes on to the next one, which reads one entry of the log.
        # The commit stands whether this succeeds or not. If not, the next call opens the table.
        with suppress(DeltaError, OSError):
            found.table.update_incremental()
            self._newest = _Newest(DeltaSnapshot.of(found.table, self.path, self.topic_id))

    def _append(self, found: DeltaSnapshot, files: Sequence[DataFile], ends: Offsets, now_ms: int) -> None:  # type: ignore[override]
        if found.takes_entries:
            self._append_entry(found, files, ends, now_ms)
            return
        actions = [
            AddAction(file.path, file.size_bytes, dict(file.partition_values), now_ms, True, file.stats)
            for file in files
        ]
        self._change(
            found,
            lambda table: table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                found.partition_columns,
                commit_properties=self._properties(ends),
                post_commithook_properties=_NO_CLEANUP,
            ),
        )

    def _append_entry(self, found: DeltaSnapshot, files: Sequence[DataFile], ends: Offsets, now_ms: int) -> None:
        log, following = Path(self.path) / "_delta_log", found.after(ends)
        before, self._newest = self._newest, None
        try:
            append_entry(
                log,
                following.version,
                files,
                self._transactions(ends),
                self._named(ends),
                found.partition_columns,
                now_ms,
            )
        except OSError as error:
            raise self.failed(error) from error
        if before is None or not before.is_there():
            # Others committed this version and cleaned it up, or created the table again: the entry follows nothing.
            entry_of(log, following.version).unlink(missing_ok=True)
            raise CommitTaken
        self._newest = _Newest(following)
        if is_checkpoint_due(following.version, found.settings):
            # The commit stands without it, and the next one that is due holds everything.
            with suppress(DeltaError, OSError, PipelineError):
                following.table.create_checkpoint()

    def _upsert(self, found: DeltaSnapshot, latest: pa.Table, key: str, ends: Offsets) -> None:  # type: ignore[override]
        columns = {f"`{name}`": f"s.`{name}`" for name in latest.column_names if name != DELETED}

        def merge(table: DeltaTable) -> None:
            change = table.merge(
                latest,
                f"t.`{key}` = s.`{key}`",
                source_alias="s",
                target_alias="t",
                commit_properties=self._properties(ends),
                post_commithook_properties=_NO_CLEANUP,
            )
            change = change.when_matched_delete(f"s.{DELETED}").when_matched_update(columns)
            change.when_not_matched_insert(columns, f"NOT s.{DELETED}").execute()

        self._change(found, merge, reads=list(found.sizes()))

    def _evolve(self, found: DeltaSnapshot, schema: pa.Schema) -> None:  # type: ignore[override]
        old, properties = found.columns, self._properties(found.offsets)
        added = [field for field in Schema.from_arrow(schema).fields if field.name not in old.names]
        if all(old.field(name).type == schema.field(name).type for name in old.names):
            self._change(found, lambda table: table.alter.add_columns(added, commit_properties=properties))
            return
        # deltalake cannot change the type of a column in place: the same rows are written again in one commit.
        batches = (in_columns(batch, schema) for batch in found.dataset().to_batches())
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        self._change(
            found,
            lambda table: write_deltalake(
                table,
                rows,
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=found.partition_columns or None,
                commit_properties=properties,
            ),
        )

    def compact(self, target_size_bytes: int, keep_hours: int) -> dict[str, int]:
        joined = {"numFilesRemoved": 0, "numFilesAdded": 0}

        def join(found: Snapshot) -> None:
            assert isinstance(found, DeltaSnapshot)
            small = [name for name, size in found.sizes().items() if size < target_size_bytes]
            self._change(
                found, lambda table: joined.update(table.optimize.compact(target_size=target_size_bytes)), reads=small
            )

        self._rewrite(join)
        removed = self._remove_unused(keep_hours)
        self._keep_log(keep_hours)
        self._change(self.open(), lambda table: table.create_checkpoint())
        self.open().table.cleanup_metadata()
        return {
            "files_joined": int(joined["numFilesRemoved"]),
            "files_written": int(joined["numFilesAdded"]),
            "files_removed": removed,
        }

    def _keep_log(self, keep_hours: int) -> None:
        """Delta keeps the entries of its log for 30 days. With a commit every second that would be millions of files,
        which every reader lists. A version whose files are gone needs no entry. Delta also names the removed files in
        every checkpoint for a week, which every reader parses."""

        def attempt(found: Snapshot) -> None:
            assert isinstance(found, DeltaSnapshot)
            wanted = dict.fromkeys((_LOG_RETENTION, _TOMBSTONE_RETENTION), f"interval {keep_hours} hours")
            if not wanted.items() <= self._settings(found).items():
                self._change(found, lambda table: table.alter.set_table_properties(wanted))

        self._rewrite(attempt)

    def _remove_unused(self, keep_hours: int) -> int:
        if not is_hadoop(self.path):
            return len(self.open().table.vacuum(keep_hours, dry_run=False, enforce_retention_duration=False))
        # A vacuum of deltalake writes commits about itself, which fail while a DataNode is dead.
        unused = self.open().table.vacuum(keep_hours, dry_run=True, enforce_retention_duration=False)
        files, root = file_system(self.path)
        for name in unused:
            files.delete_file(f"{root}/{name}")
        return len(unused)

    def forget(self, files: Sequence[str]) -> None:
        # Delta takes all missing files out of the newest version.
        if not is_hadoop(self.path):
            self.open().table.repair()
            return

        def attempt(found: Snapshot) -> None:
            assert isinstance(found, DeltaSnapshot)
            lost = {uri.removeprefix(f"{self.path}/") for uri in files}
            with staged_table(self.path, found.version, placeholders=set(found.sizes()) - lost) as table:
                table.repair()

        self._rewrite(attempt)
