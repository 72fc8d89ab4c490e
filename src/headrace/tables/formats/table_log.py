"""The log of a table as the checkpoint of its topic.

Every commit carries the offsets of the topic, so one version of the table gives rows and offsets that belong together.
A commit names the version that it was planned on and fails if another commit took its place. Then the offsets decide:
if they have not moved (a compaction, for example), the commit is tried again; if they have, another writer is at work,
and this one stops. So two writers at once, a repeated batch and a lost Spark checkpoint neither lose nor double a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from headrace.kernel.plurals import counted
from headrace.pipelines.errors import PipelineError
from headrace.tables.formats.evolution import widened

TOPIC: Final = "headrace.topic"
TOPIC_ID: Final = "headrace.topic.id"
OFFSETS: Final = "headrace.offsets"
# Not `__deleted`: Debezium adds a field with this name to rows.
DELETED: Final = "__headrace_deleted"
_ATTEMPTS: Final = 10
# A compaction meets the commits of a busy writer. It loses nothing by trying again.
_REWRITE_ATTEMPTS: Final = 100
Offsets = dict[int, int]


class TableConflict(PipelineError):
    """Another writer moved the table's offsets."""


class WrongTable(PipelineError):
    """The path holds the table of another topic, or one with other columns or folders."""


class CommitTaken(Exception):
    """Another commit took the version that this one was planned on. The offsets say whether it was a writer."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file that an executor wrote below the table's path."""

    path: str
    size_bytes: int
    rows: int
    partition_values: Mapping[str, str]
    stats: str


class Snapshot(Protocol):
    """One version of a table."""

    @property
    def version(self) -> int: ...
    @property
    def offsets(self) -> Offsets:
        """The offset after the last record of each partition. A partition that the topic got later may be missing."""

    @property
    def columns(self) -> pa.Schema: ...
    @property
    def partition_columns(self) -> list[str]: ...
    def rows(self) -> int: ...
    def files(self) -> list[str]:
        """Paths or URIs of the data files."""

    def dataset(self) -> ds.Dataset: ...
    def data_files(self) -> ds.Dataset:
        """The rows of the data files, also those that another program deleted by delete files."""


class TableLog(ABC):
    kind: ClassVar[str]

    def __init__(self, path: str, topic: str, topic_id: str) -> None:
        self.path, self.topic, self.topic_id = path, topic, topic_id

    @abstractmethod
    def open(self) -> Snapshot:
        """The newest version. Raises PipelineError if there is none."""

    @abstractmethod
    def exists(self) -> bool: ...
    @abstractmethod
    def _settings(self, found: Snapshot) -> Mapping[str, str]:
        """What the table says about itself: the topic and its id, if Headrace created it."""

    @abstractmethod
    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None: ...
    @abstractmethod
    def _append(self, found: Snapshot, files: Sequence[DataFile], ends: Offsets, now_ms: int) -> None:
        """Raises CommitTaken if the version of `found` is not the newest any more."""

    @abstractmethod
    def _upsert(self, found: Snapshot, latest: pa.Table, key: str, ends: Offsets) -> None: ...
    @abstractmethod
    def _evolve(self, found: Snapshot, schema: pa.Schema) -> None: ...
    @abstractmethod
    def compact(self, target_size_bytes: int, keep_hours: int) -> dict[str, int]:
        """Joins small files into larger ones, and removes files that no version of the last hours needs."""

    @abstractmethod
    def forget(self, files: Sequence[str]) -> None:
        """Takes files out of the newest version: for files that do not exist any more."""

    def unregister(self) -> None:  # noqa: B027 (only Iceberg has a catalog)
        """Takes the table out of its catalog, if it has one. The files stay."""

    def create(self, schema: pa.Schema, partition_by: Sequence[str], starts: Offsets) -> bool:
        """Creates the table with its first offsets, or attaches to the table that an earlier call created. Returns
        whether the table begins at `starts`."""
        if self.exists():
            self.check(schema, partition_by)
        else:
            self._create(schema, partition_by)
        if self.offsets():
            return False
        self.append([], starts, {}, 0)
        return True

    def check(self, schema: pa.Schema | None = None, partition_by: Sequence[str] = ()) -> Snapshot:
        """Raises WrongTable unless the path holds the table of this very topic, with this schema and folders."""
        found = self.open()
        settings = self._settings(found)
        if TOPIC_ID not in settings:
            raise WrongTable(f"{self.path} holds another table, not the one of topic {self.topic!r}: choose a path")
        if settings[TOPIC] != self.topic:
            raise WrongTable(f"{self.path} holds the table of topic {settings[TOPIC]!r}: choose another path")
        if settings[TOPIC_ID] != self.topic_id:
            raise WrongTable(
                f"topic {self.topic!r} was deleted and created again (its id was {settings[TOPIC_ID]} and is "
                f"{self.topic_id}): the table {self.path} holds the old topic; create a table with another path"
            )
        if schema is not None and found.columns.names != schema.names:
            raise WrongTable(
                f"{self.path}: the table has the columns {', '.join(found.columns.names)}, "
                f"not {', '.join(schema.names)}"
            )
        if schema is not None and found.partition_columns != list(partition_by):
            folders = ", ".join(found.partition_columns) or "nothing"
            raise WrongTable(f"{self.path}: the table is partitioned by {folders}, which cannot change")
        return found

    def columns(self) -> pa.Schema:
        return self.open().columns

    def offsets(self) -> Offsets:
        return self.open().offsets

    def append(self, files: Sequence[DataFile], ends: Offsets, expected: Offsets, now_ms: int) -> None:
        """Adds files and moves the offsets to `ends`, if they are `expected` now."""
        self._commit(lambda found, all_ends: self._append(found, files, all_ends, now_ms), ends, expected)

    def add(self, files: Sequence[DataFile]) -> None:
        """Adds files with rows below the offsets. A writer may move the offsets meanwhile."""
        self._rewrite(lambda found: self._append(found, files, found.offsets, 0))

    def upsert(self, latest: pa.Table, ends: Offsets, expected: Offsets, key: str = "key") -> None:
        """Merges the latest record of each key. A row whose column DELETED is true removes its key."""
        self._commit(lambda found, all_ends: self._upsert(found, latest, key, all_ends), ends, expected)

    def evolve(self, schema: pa.Schema) -> list[str]:
        """Adds the columns that the table lacks and widens types. Returns one sentence per change. Raises
        PipelineError if a column would have to become narrower or another type."""
        for _ in range(_ATTEMPTS):
            found = self.open()
            wanted, changes = widened(found.columns, schema, f"the table of topic {self.topic!r}")
            if not changes:
                return []
            try:
                self._evolve(found, wanted)
                return changes
            except CommitTaken:
                continue
        raise self._too_many_conflicts()

    def _commit(self, attempt: Callable[[Snapshot, Offsets], None], ends: Offsets, expected: Offsets) -> None:
        for _ in range(_ATTEMPTS):
            found = self.open()
            if found.offsets != expected:
                raise TableConflict(
                    f"{self.path}: another writer moved the table of topic {self.topic!r} to the offsets "
                    f"{found.offsets}; this one expected {expected}: keep one writer for a table"
                )
            try:
                # Partitions have the numbers 0, 1, 2 …, and a commit leaves no gap.
                attempt(found, {**dict.fromkeys(range(max(ends, default=0)), 0), **expected, **ends})
                return
            except CommitTaken:
                continue
        raise self._too_many_conflicts()

    def _rewrite(self, attempt: Callable[[Snapshot], None]) -> None:
        """A commit that changes files and not the offsets: it is tried again on the newest version."""
        for _ in range(_REWRITE_ATTEMPTS):
            try:
                attempt(self.open())
                return
            except CommitTaken:
                continue
        raise self._too_many_conflicts(_REWRITE_ATTEMPTS)

    def _too_many_conflicts(self, attempts: int = _ATTEMPTS) -> TableConflict:
        return TableConflict(f"{self.path}: {counted(attempts, 'commit')} in a row found another commit in their place")

    def failed(self, error: Exception) -> PipelineError:
        return PipelineError(f"{self.path}: the commit failed: {' '.join(str(error).split())}")
