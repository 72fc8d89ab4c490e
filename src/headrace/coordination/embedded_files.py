"""The files of the embedded store: a snapshot of the tree, the journal of later changes, the mark of a clean close.

    snapshot   MAGIC · transaction id · node count · nodes · CRC-32C of all before
               written tmp → fsync → rename → fsync dir
    journal    MAGIC · entries, each: length · CRC-32C of the payload · payload
               payload: one or more transactions, each: transaction id · session · operations
    closed     the last transaction id, written by a clean close and removed by the next opening

Everything that one fsync covers is one entry of the journal. So a crash can leave only one torn entry, the last, and it
was never acknowledged: `read_store` ends before it. A bad entry with a good one behind it is damage, and so is a
journal that ends before the transaction that `closed` names. `read_store` then raises StoreFailed: the topics that only
the lost part names would otherwise look like deleted topics. A snapshot is complete or absent by the rename. Entries
that are already in the snapshot (a crash between writing it and emptying the journal) are skipped by their transaction
id.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from headrace.coordination.core.tree import Tree
from headrace.coordination.store import Check, Create, Delete, Node, Op, Set, StoreFailed
from headrace.kernel.checksum import crc32c
from headrace.kernel.dataclass import dataclass

SNAPSHOT_FILE: Final = "snapshot"
JOURNAL_FILE: Final = "journal"
CLOSED_FILE: Final = "closed"
SNAPSHOT_MAGIC: Final = b"HRSNAP01"
JOURNAL_MAGIC: Final = b"HRJRNL01"
_ENTRY: Final = struct.Struct(">II")
_TRANSACTION: Final = struct.Struct(">QQI")
_OP: Final = struct.Struct(">BHIi")
_NODE: Final = struct.Struct(">HIiQQ")
_SNAPSHOT_HEAD: Final = struct.Struct(">QI")
_KINDS: Final[dict[type, int]] = {Create: 1, Set: 2, Delete: 3}
_EPHEMERAL: Final = 4
# No valid entry is nearly this large; a larger length means a torn or foreign file.
MAX_ENTRY_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class Transaction:
    id: int
    session_id: int
    ops: Sequence[Op]


@dataclass(frozen=True, slots=True)
class StoredTree:
    """The content of a store's files."""

    tree: Tree
    last_id: int
    snapshot_bytes: int
    # End of the last good entry, and length of the file: a crash tore the bytes in between.
    journal_end: int
    journal_bytes: int


def encode_entry(transactions: Iterable[Transaction]) -> bytes:
    payload = bytearray()
    for transaction in transactions:
        ops = [op for op in transaction.ops if not isinstance(op, Check)]
        payload += _TRANSACTION.pack(transaction.id, transaction.session_id, len(ops))
        for op in ops:
            kind = _EPHEMERAL if isinstance(op, Create) and op.ephemeral else _KINDS[type(op)]
            path = op.path.encode()
            data = b"" if isinstance(op, Delete) else op.data
            payload += _OP.pack(kind, len(path), len(data), 0) + path + data
    return _ENTRY.pack(len(payload), crc32c(payload)) + bytes(payload)


def _decode_payload(payload: bytes) -> Iterator[Transaction]:
    at = 0
    while at < len(payload):
        transaction_id, session_id, count = _TRANSACTION.unpack_from(payload, at)
        at += _TRANSACTION.size
        ops: list[Op] = []
        for _ in range(count):
            kind, path_length, data_length, _reserved = _OP.unpack_from(payload, at)
            at += _OP.size
            path = payload[at : at + path_length].decode()
            at += path_length
            data = payload[at : at + data_length]
            at += data_length
            if kind in (_KINDS[Create], _EPHEMERAL):
                ops.append(Create(path, data, ephemeral=kind == _EPHEMERAL))
            elif kind == _KINDS[Set]:
                ops.append(Set(path, data))
            else:
                ops.append(Delete(path))
        yield Transaction(transaction_id, session_id, ops)


def _entry_end(data: bytes, at: int) -> int | None:
    """Where the entry that begins at `at` ends; None when the entry is not whole."""
    if at + _ENTRY.size > len(data):
        return None
    length, crc = _ENTRY.unpack_from(data, at)
    end = at + _ENTRY.size + length
    # The checksum of nothing is zero, so a tail of zeros would look like entries without a transaction.
    if length < _TRANSACTION.size or length > MAX_ENTRY_BYTES or end > len(data):
        return None
    return end if crc32c(data[at + _ENTRY.size : end]) == crc else None


def read_store(directory: Path) -> StoredTree | None:
    """None when there is no store in `directory`. Changes nothing. Raises StoreFailed for a damaged store."""
    journal = directory / JOURNAL_FILE
    data, folded, closed_at = _content(journal), _content(directory / SNAPSHOT_FILE), _closed_at(directory)
    if data is None:
        if folded is None and closed_at is None:
            return None
        raise StoreFailed(f"{journal} is missing")
    if data[: len(JOURNAL_MAGIC)] != JOURNAL_MAGIC:
        raise StoreFailed(f"{journal} is not a journal of the coordination store")
    found = _replayed(data, folded, directory)
    at = found.journal_end
    if any(_entry_end(data, later) is not None for later in range(at + 1, len(data))):
        raise StoreFailed(f"{journal} is damaged at byte {at}, and later entries are whole")
    if closed_at is not None and found.last_id < closed_at:
        raise StoreFailed(
            f"{journal} is damaged at byte {at}: it ends with transaction {found.last_id}, "
            f"but the store was closed after transaction {closed_at}"
        )
    return found


def read_intact_part(directory: Path) -> StoredTree | None:
    """The readable part of a damaged store: the snapshot, and the journal up to its first bad byte. None if there is
    none."""
    data, folded = _content(directory / JOURNAL_FILE), _content(directory / SNAPSHOT_FILE)
    if data is None or data[: len(JOURNAL_MAGIC)] != JOURNAL_MAGIC:
        data = JOURNAL_MAGIC
    try:
        return _replayed(data, folded, directory)
    except StoreFailed:
        return None  # without its snapshot the journal begins in the middle


def _replayed(data: bytes, folded: bytes | None, directory: Path) -> StoredTree:
    tree, last_id = (Tree(), 0) if folded is None else decode_snapshot(folded, directory / SNAPSHOT_FILE)
    at = len(JOURNAL_MAGIC)
    while (end := _entry_end(data, at)) is not None:
        for transaction in _decode_payload(data[at + _ENTRY.size : end]):
            if transaction.id > last_id:
                tree.commit(transaction.ops, transaction.id, transaction.session_id)
                last_id = transaction.id
        at = end
    return StoredTree(tree, last_id, len(folded or b""), at, len(data))


def write_store(directory: Path, tree: Tree, last_id: int) -> None:
    """Writes a new store with `tree`; `directory` must not exist."""
    directory.mkdir(mode=0o700)
    replace_file(directory / SNAPSHOT_FILE, encode_snapshot(tree, last_id))
    replace_file(directory / JOURNAL_FILE, JOURNAL_MAGIC)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _closed_at(directory: Path) -> int | None:
    text = _content(directory / CLOSED_FILE)
    return int(text) if text is not None and text.strip().isdigit() else None


def mark_closed(directory: Path, last_id: int) -> None:
    replace_file(directory / CLOSED_FILE, f"{last_id}\n".encode())


def take_closed_mark(directory: Path) -> None:
    try:
        (directory / CLOSED_FILE).unlink()
    except FileNotFoundError:
        return
    fsync_directory(directory)


def encode_snapshot(tree: Tree, transaction_id: int) -> bytes:
    out = bytearray(SNAPSHOT_MAGIC)
    out += _SNAPSHOT_HEAD.pack(transaction_id, len(tree.nodes))
    for path, node in sorted(tree.nodes.items()):
        name = path.encode()
        out += _NODE.pack(len(name), len(node.data), node.version, node.created_id, node.session_id) + name + node.data
    out += struct.pack(">I", crc32c(bytes(out)))
    return bytes(out)


def decode_snapshot(data: bytes, where: Path) -> tuple[Tree, int]:
    if data[: len(SNAPSHOT_MAGIC)] != SNAPSHOT_MAGIC or len(data) < len(SNAPSHOT_MAGIC) + _SNAPSHOT_HEAD.size + 4:
        raise StoreFailed(f"{where} is not a snapshot of the coordination store")
    if crc32c(data[:-4]) != struct.unpack(">I", data[-4:])[0]:
        raise StoreFailed(f"{where} is damaged (its checksum does not match)")
    transaction_id, count = _SNAPSHOT_HEAD.unpack_from(data, len(SNAPSHOT_MAGIC))
    at = len(SNAPSHOT_MAGIC) + _SNAPSHOT_HEAD.size
    tree = Tree()
    for _ in range(count):
        name_length, data_length, version, created_id, session_id = _NODE.unpack_from(data, at)
        at += _NODE.size
        path = data[at : at + name_length].decode()
        at += name_length
        tree.add(path, Node(data[at : at + data_length], version, created_id, session_id))
        at += data_length
    return tree, transaction_id


def fsync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes) -> None:
    """Replaces a file atomically: after a crash it has its old content or all of `data`."""
    draft = path.with_name(path.name + ".tmp")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.replace(path)
    fsync_directory(path.parent)
