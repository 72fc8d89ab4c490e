"""Kafka's small text files: offset checkpoints, epoch checkpoints, partition.metadata, meta.properties.

    0                       version            version: 0               node.id=1
    2                       entries            topic_id: <22 chars>     directory.id=…
    orders 0 17             one per line                                version=1

One file is Headrace's own: `aborted-transactions-checkpoint` has the offset up to which the aborted-transaction indexes
of a partition are known, and the digest of each non-empty index (`orders 0 170 2,0:2:1a2b3c4d,90:1:99887766`). Kafka
ignores it.

A crash or an editor may damage such a file. The reader raises CorruptFile, and its caller decides how to rebuild the
content (nearly always from the log itself).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.ids import TopicPartition, uuid_from_text, uuid_to_text
from headrace.storage.files import sync_file, write_small_file
from headrace.storage.segment.txn_index import NO_ENTRIES, Digest

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
ABORTED_FILE: Final = "aborted-transactions-checkpoint"
LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"
_VERSION: Final = "0"


class CorruptFile(Exception):
    """A small file with invalid content. `str()` names the file and line; `position` is the first bad byte."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


def _read_table(path: Path, columns: int) -> list[list[str]]:
    try:
        lines = path.read_text().split("\n")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as wrong:
        raise CorruptFile(f"{path}: not text", wrong.start) from None
    if lines and lines[-1] == "":
        lines.pop()
    if len(lines) < 2 or lines[0] != _VERSION or not lines[1].isdigit():
        position = len(_VERSION) + 1 if lines and lines[0] == _VERSION else 0
        raise CorruptFile(f"{path}: must begin with version 0 and the number of entries", position)
    rows = [line.split(" ") for line in lines[2:]]
    for number, row in enumerate(rows, start=3):
        if len(row) != columns:
            raise CorruptFile(f"{path}, line {number}: needs {columns} words", _line_start(lines, number))
    if len(rows) != int(lines[1]):
        position = _line_start(lines, min(len(rows), int(lines[1])) + 3)
        raise CorruptFile(f"{path}: says {lines[1]} entries, holds {len(rows)}", position)
    return rows


def _line_start(lines: list[str], number: int) -> int:
    """The position of the first byte of line `number`; lines count from 1."""
    return sum(len(line.encode()) + 1 for line in lines[: number - 1])


def _write_table(path: Path, rows: list[str], *, durable: bool) -> None:
    write_small_file(path, "\n".join([_VERSION, str(len(rows)), *rows, ""]).encode(), durable=durable)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Reads an offset checkpoint; empty if the file does not exist."""
    try:
        return {TopicPartition(topic, int(index)): int(offset) for topic, index, offset in _read_table(path, 3)}
    except ValueError as wrong:
        raise CorruptFile(f"{path}: {wrong}") from None


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    _write_table(path, [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()], durable=True)


@dataclass(frozen=True, slots=True)
class KnownAborted:
    """Digests of the aborted-transaction indexes of a partition, for segments that end at or below `up_to`."""

    up_to: int = 0
    digests: Mapping[int, Digest] = field(default_factory=dict)

    def of(self, base_offset: int, end_offset: int) -> Digest | None:
        """The digest for the segment with that range, or None if it is not known."""
        return self.digests.get(base_offset, NO_ENTRIES) if end_offset <= self.up_to else None


def read_aborted(path: Path) -> dict[TopicPartition, KnownAborted]:
    try:
        return {
            TopicPartition(topic, int(index)): KnownAborted(int(up_to), dict(map(_digest, digests.split(",")[1:])))
            for topic, index, up_to, digests in _read_table(path, 4)
        }
    except ValueError as wrong:
        raise CorruptFile(f"{path}: {wrong}") from None


def _digest(text: str) -> tuple[int, Digest]:
    base_offset, count, crc = text.split(":")
    return int(base_offset), Digest(int(count), int(crc, 16))


def write_aborted(path: Path, known: Mapping[TopicPartition, KnownAborted]) -> None:
    rows = []
    for tp, aborted in known.items():
        digests = "".join(f",{base}:{digest.entries}:{digest.crc:08x}" for base, digest in aborted.digests.items())
        rows.append(f"{tp.topic} {tp.partition} {aborted.up_to} {len(aborted.digests)}{digests}")
    _write_table(path, rows, durable=True)


def read_epochs(path: Path) -> list[tuple[int, int]]:
    """(epoch, start offset) pairs in file order."""
    rows = _read_table(path, 2)
    written = [_VERSION, str(len(rows)), *(" ".join(row) for row in rows)]
    pairs: list[tuple[int, int]] = []
    for number, (epoch, offset) in enumerate(rows, start=3):
        try:
            pair = int(epoch), int(offset)
        except ValueError as wrong:
            raise CorruptFile(f"{path}, line {number}: {wrong}", _line_start(written, number)) from None
        if pairs and (pairs[-1][0] >= pair[0] or pairs[-1][1] > pair[1]):
            what = f"{path}, line {number}: epochs and offsets must rise"
            raise CorruptFile(what, _line_start(written, number))
        pairs.append(pair)
    return pairs


def write_epochs(path: Path, pairs: Iterable[tuple[int, int]], *, durable: bool = True) -> None:
    _write_table(path, [f"{epoch} {offset}" for epoch, offset in pairs], durable=durable)


def read_topic_id(directory: Path) -> uuid.UUID | None:
    path = directory / PARTITION_METADATA_FILE
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise CorruptFile(f"{path}: not text") from None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        return uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError):
        raise CorruptFile(f"{path}: has no topic_id of 22 characters") from None


def write_topic_id(directory: Path, topic_id: uuid.UUID, *, durable: bool = True) -> None:
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n"
    write_small_file(directory / PARTITION_METADATA_FILE, text.encode(), durable=durable)


def sync_topic_id(directory: Path) -> None:
    """Syncs a `partition.metadata` file that was written without a sync."""
    with contextlib.suppress(FileNotFoundError):
        sync_file(directory / PARTITION_METADATA_FILE)


def read_properties(path: Path) -> dict[str, str]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise CorruptFile(f"{path}: not text") from None
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "!")))
    return {name.strip(): value.strip().replace("\\=", "=").replace("\\:", ":") for name, _, value in pairs}


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    lines = ["#", *(f"{name}={value}" for name, value in properties.items()), ""]
    write_small_file(path, "\n".join(lines).encode())
