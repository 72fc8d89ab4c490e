"""The two files of the embedded store: a snapshot of the tree and the journal of what came after it.

    snapshot   MAGIC · transaction id · node count · nodes · CRC-32C of all before
               written tmp → fsync → rename → fsync dir
    journal    MAGIC · entries, each: length · CRC-32C of the payload · payload
               payload: transaction id · session · operations

A crash may leave a torn last entry: reading stops at the first entry that is short or fails its checksum, and the
file is cut there; nobody was told that entry had happened. A snapshot is complete or absent by the rename. Entries
that are already in the snapshot (a crash between writing it and emptying the journal) are skipped by their
transaction id.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from headrace.coordination.core.tree import Tree, parent_of
from headrace.coordination.store import Check, Create, Delete, Node, Op, Set, StoreFailed
from headrace.kernel.checksum import crc32c

SNAPSHOT_MAGIC: Final = b"HRSNAP01"
JOURNAL_MAGIC: Final = b"HRJRNL01"
_ENTRY: Final = struct.Struct(">II")
_PAYLOAD: Final = struct.Struct(">QQI")
_OP: Final = struct.Struct(">BHIi")
_NODE: Final = struct.Struct(">HIiQQ")
_SNAPSHOT_HEAD: Final = struct.Struct(">QI")
_KINDS: Final[dict[type, int]] = {Create: 1, Set: 2, Delete: 3}
_EPHEMERAL: Final = 4
# No honest entry comes near this; a larger length is a torn or foreign file.
MAX_ENTRY_BYTES: Final = 256 << 20


def encode_entry(transaction_id: int, session_id: int, ops: Sequence[Op]) -> bytes:
    payload = bytearray()
    count = 0
    for op in ops:
        if isinstance(op, Check):
            continue
        kind = _EPHEMERAL if isinstance(op, Create) and op.ephemeral else _KINDS[type(op)]
        path = op.path.encode()
        data = b"" if isinstance(op, Delete) else op.data
        payload += _OP.pack(kind, len(path), len(data), 0) + path + data
        count += 1
    payload[:0] = _PAYLOAD.pack(transaction_id, session_id, count)
    return _ENTRY.pack(len(payload), crc32c(payload)) + bytes(payload)


def decode_payload(payload: bytes) -> tuple[int, int, list[Op]]:
    transaction_id, session_id, count = _PAYLOAD.unpack_from(payload, 0)
    at = _PAYLOAD.size
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
    return transaction_id, session_id, ops


def read_journal(data: bytes) -> Iterator[tuple[int, tuple[int, int, list[Op]]]]:
    """(position after the entry, entry) for every whole entry from the start."""
    at = len(JOURNAL_MAGIC)
    while at + _ENTRY.size <= len(data):
        length, crc = _ENTRY.unpack_from(data, at)
        end = at + _ENTRY.size + length
        if length > MAX_ENTRY_BYTES or end > len(data):
            return
        payload = data[at + _ENTRY.size : end]
        if crc32c(payload) != crc:
            return
        yield end, decode_payload(payload)
        at = end


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
        raise StoreFailed(f"{where} is damaged (its checksum does not match): restore it from a copy")
    transaction_id, count = _SNAPSHOT_HEAD.unpack_from(data, len(SNAPSHOT_MAGIC))
    at = len(SNAPSHOT_MAGIC) + _SNAPSHOT_HEAD.size
    tree = Tree()
    for _ in range(count):
        name_length, data_length, version, created_id, session_id = _NODE.unpack_from(data, at)
        at += _NODE.size
        path = data[at : at + name_length].decode()
        at += name_length
        tree.nodes[path] = Node(data[at : at + data_length], version, created_id, session_id)
        at += data_length
        if path != "/":
            tree.children.setdefault(parent_of(path), set()).add(path[path.rindex("/") + 1 :])
    return tree, transaction_id


def fsync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes) -> None:
    """`path` holds either its old content or all of `data`, whatever happens."""
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
