"""Strays: logs that no topic of the cluster claims, and what recovery cut from a log. A person decides about them.

A stray is a directory of its own in the log directory, with a note of when and why it was set aside:

    orders-0.0f3c…-stray/stray.json          topic, topic id, cluster id, offsets, time, reason
    orders-0.0f3c…-stray/…0.log, …           kind `log`: the files of the log as they were
    orders-0.0f3c…-stray/…0.log.…512.cut     kind `cut`: bytes that recovery cut from the log, from byte 512 on

The name follows Kafka's pattern for stray directories. Apache Kafka loads such a directory, does not serve it and never
deletes it. A directory with any other name (`strays/`) makes Kafka refuse the whole log directory. Kafka ignores the
note and does not read a `.cut` file as a segment, so it does not truncate it.

The broker never removes a stray of the kind `log`. It removes one of the kind `cut` at the first start after a clean
stop that is at least `CUTS_KEPT_MS` later, so that people have a week to look at it.
"""

from __future__ import annotations

import json
import shutil
import uuid
from enum import StrEnum
from pathlib import Path
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.ids import TopicPartition, uuid_from_text, uuid_to_text
from headrace.kernel.json_values import JsonObject
from headrace.storage.core.salvage import good_batches
from headrace.storage.dirs.checkpoints import META_PROPERTIES_FILE, CorruptFile, read_properties
from headrace.storage.dirs.unopened_log import count_records, offsets_in, owner_of
from headrace.storage.files import (
    STRAY_DIR_SUFFIX,
    marked_directory_name,
    partition_of_marked_directory,
    sync_directory,
    write_small_file,
)

NOTE_FILE: Final = "stray.json"
CUT_SUFFIX: Final = ".cut"
CUTS_KEPT_MS: Final = 7 * 24 * 3600 * 1000


class StrayKind(StrEnum):
    LOG = "log"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class StrayNote:
    """The note of a stray. Its offsets are the first one and the one after the last. For a cut only the first is known
    until a command searches it for whole batches."""

    kind: StrayKind
    topic: str
    partition: int
    topic_id: uuid.UUID | None
    cluster_id: str | None
    set_aside_ms: int
    reason: str
    first_offset: int
    end_offset: int | None

    def to_json(self) -> bytes:
        topic_id = None if self.topic_id is None else uuid_to_text(self.topic_id)
        fields = {
            "version": 1,
            "kind": self.kind.value,
            "topic": self.topic,
            "partition": self.partition,
            "topic_id": topic_id,
            "cluster_id": self.cluster_id,
            "set_aside_ms": self.set_aside_ms,
            "reason": self.reason,
            "first_offset": self.first_offset,
            "end_offset": self.end_offset,
        }
        return json.dumps(fields, indent=2).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> StrayNote:
        """Raises ValueError, KeyError or TypeError if `data` is not a note."""
        fields: JsonObject = json.loads(data)
        topic_id = fields["topic_id"]
        return cls(
            StrayKind(fields["kind"]),
            str(fields["topic"]),
            int(fields["partition"]),
            None if topic_id is None else uuid_from_text(topic_id),
            fields["cluster_id"],
            int(fields["set_aside_ms"]),
            str(fields["reason"]),
            int(fields["first_offset"]),
            None if fields["end_offset"] is None else int(fields["end_offset"]),
        )


@dataclass(frozen=True, slots=True)
class Stray:
    """A stray on the disk. It has no note when Apache Kafka set it aside, or when the note is damaged."""

    path: Path
    named: TopicPartition
    note: StrayNote | None

    @property
    def topic(self) -> str:
        return self.named.topic if self.note is None else self.note.topic

    @property
    def partition(self) -> int:
        return self.named.partition

    @property
    def kind(self) -> StrayKind:
        if self.note is not None:
            return self.note.kind
        return StrayKind.CUT if self.cut_files() else StrayKind.LOG

    @property
    def reason(self) -> str:
        return "unknown: it has no note (did Apache Kafka set it aside?)" if self.note is None else self.note.reason

    @property
    def topic_id(self) -> uuid.UUID | None:
        return owner_of(self.path) if self.note is None else self.note.topic_id

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.path.iterdir() if file.is_file())

    def count_records(self) -> int:
        """The number of records in its whole batches, without transaction markers."""
        if self.kind is StrayKind.CUT:
            found = (batch for file in self.cut_files() for batch in good_batches(memoryview(file.read_bytes())))
            return sum(batch.record_count for batch in found if not batch.is_control)
        return count_records(self.path)

    def offsets(self) -> tuple[int, int]:
        """The first offset and the one after the last; for a cut, of the whole batches in it."""
        if self.kind is StrayKind.LOG:
            first, end = offsets_in(self.path)
            return (first, end) if self.note is None else (max(first, self.note.first_offset), end)
        first = end = 0 if self.note is None else self.note.first_offset
        for file in self.cut_files():
            for batch in good_batches(memoryview(file.read_bytes())):
                end = max(end, batch.next_offset)
        return first, end

    def cut_files(self) -> list[Path]:
        """In the order of their offsets."""
        return sorted(self.path.glob("*" + CUT_SUFFIX))


def strays_in(log_dir: Path) -> list[Stray]:
    found = []
    for path in sorted(log_dir.iterdir()):
        named = partition_of_marked_directory(path.name, STRAY_DIR_SUFFIX)
        if named is not None and path.is_dir():
            found.append(Stray(path, named, _read_note(path)))
    return found


def _read_note(directory: Path) -> StrayNote | None:
    try:
        return StrayNote.from_json((directory / NOTE_FILE).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_note(directory: Path, note: StrayNote, *, durable: bool = True) -> None:
    write_small_file(directory / NOTE_FILE, note.to_json(), durable=durable)


def cluster_id_of(log_dir: Path) -> str | None:
    try:
        return read_properties(log_dir / META_PROPERTIES_FILE).get("cluster.id")
    except CorruptFile:
        return None


def set_aside(
    directory: Path, partition: TopicPartition, reason: str, *, now_ms: int, offsets: tuple[int, int] | None = None
) -> Path:
    """Turns the directory of a log into a stray with a note, and returns its new path. No writer may have it open.

    `offsets` are the first offset and the one after the last; without them they are read from the files. The note is
    written before the rename: a crash in between leaves the log in its place with a file that brokers ignore. Nothing
    is synced, because a start may set thousands of logs aside: what a crash undoes, the next start repeats.
    """
    log_dir = directory.parent
    first_offset, end_offset = offsets or offsets_in(directory)
    cluster_id, topic_id = cluster_id_of(log_dir), owner_of(directory)
    note = StrayNote(StrayKind.LOG, *partition, topic_id, cluster_id, now_ms, reason, first_offset, end_offset)
    write_note(directory, note, durable=False)
    target = log_dir / marked_directory_name(partition, STRAY_DIR_SUFFIX)
    directory.rename(target)
    return target


def remove_stray(stray: Stray) -> None:
    """Deletes the stray permanently."""
    shutil.rmtree(stray.path)
    sync_directory(stray.path.parent)
