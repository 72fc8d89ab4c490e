"""The messages between the embedded store of a unit and the processes of the unit, over Unix sockets.

    frame     length of the rest (u32) · number of the request (u64) · kind (u8) · body
    request   HELLO timeout in ms │ GET, EXISTS, CHILDREN: watch (u8) · path │ DATA paths │ MULTI operations │ BEAT
              │ CLOSE
    answer    DONE body │ FAULT kind of the fault (u8) · message │ FIRED children (u8) · path: a watch, not an answer

An answer has the number of its request. Both ends are the same release of the same program on one host, so the format
has no versions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

from headrace.coordination.store import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionExpired,
    Set,
    StoreFailed,
    StoreFault,
)

LENGTH: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">QB")
_OP: Final = struct.Struct(">BHIi")
_NODE: Final = struct.Struct(">iQQ")
_COUNT: Final = struct.Struct(">I")
_NUMBER: Final = struct.Struct(">Q")
_LENGTH_OF_DATA: Final = struct.Struct(">i")
_NO_DATA: Final = _LENGTH_OF_DATA.pack(-1)
# No message is nearly this large; a larger length comes from a program that is not ours.
MAX_FRAME_BYTES: Final = 256 << 20


class Kind(IntEnum):
    HELLO = 1
    GET = 2
    EXISTS = 3
    CHILDREN = 4
    MULTI = 5
    BEAT = 6
    CLOSE = 7
    DATA = 8
    DONE = 16
    FAULT = 17
    FIRED = 18


class BadMessage(Exception):
    """The bytes are not a message of this protocol."""


_FAULTS: Final[tuple[type[StoreFault], ...]] = (
    StoreFault,
    NoNode,
    NodeExists,
    BadVersion,
    NotEmpty,
    ConnectionLost,
    SessionExpired,
    StoreFailed,
)
_CREATE, _EPHEMERAL, _SET, _DELETE, _CHECK = range(1, 6)


def frame(number: int, kind: Kind, body: bytes = b"") -> bytes:
    return LENGTH.pack(_HEAD.size + len(body)) + _HEAD.pack(number, kind) + body


def split(buffer: bytearray) -> Iterator[tuple[int, Kind, bytes]]:
    """Takes the whole frames from the start of `buffer`. Raises BadMessage."""
    at = 0
    try:
        while len(buffer) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(buffer, at)
            if not _HEAD.size <= length <= MAX_FRAME_BYTES:
                raise BadMessage(f"a message of {length} bytes")
            end = at + LENGTH.size + length
            if end > len(buffer):
                return
            number, kind = _HEAD.unpack_from(buffer, at + LENGTH.size)
            body = bytes(buffer[at + LENGTH.size + _HEAD.size : end])
            at = end
            try:
                yield number, Kind(kind), body
            except ValueError:
                raise BadMessage(f"a message of kind {kind}") from None
    finally:
        del buffer[:at]


# Bodies


def encode_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def decode_number(body: bytes) -> int:
    if len(body) != _NUMBER.size:
        raise BadMessage(f"a number of {len(body)} bytes")
    return int(_NUMBER.unpack(body)[0])


def encode_path(path: str, flag: bool) -> bytes:
    return bytes([flag]) + path.encode()


def decode_path(body: bytes) -> tuple[str, bool]:
    if not body:
        raise BadMessage("no path")
    try:
        return body[1:].decode(), bool(body[0])
    except UnicodeDecodeError:
        raise BadMessage("a path that is not UTF-8") from None


def encode_node(node: Node | None) -> bytes:
    return b"" if node is None else _NODE.pack(node.version, node.created_id, node.session_id) + node.data


def decode_node(body: bytes) -> Node | None:
    if not body:
        return None
    version, created_id, session_id = _NODE.unpack_from(body)
    return Node(body[_NODE.size :], version, created_id, session_id)


def encode_names(names: Sequence[str]) -> bytes:
    return "\0".join(names).encode()


def decode_names(body: bytes) -> list[str]:
    return body.decode().split("\0") if body else []


def decode_paths(body: bytes) -> list[str]:
    try:
        return decode_names(body)
    except UnicodeDecodeError:
        raise BadMessage("paths that are not UTF-8") from None


def encode_data(found: Sequence[bytes | None]) -> bytes:
    parts = []
    for data in found:
        parts.append(_NO_DATA if data is None else _LENGTH_OF_DATA.pack(len(data)) + data)
    return b"".join(parts)


def decode_data(body: bytes) -> list[bytes | None]:
    found: list[bytes | None] = []
    at = 0
    while at < len(body):
        (length,) = _LENGTH_OF_DATA.unpack_from(body, at)
        at += _LENGTH_OF_DATA.size
        found.append(None if length < 0 else body[at : at + length])
        at += max(length, 0)
    return found


def encode_fault(fault: StoreFault) -> bytes:
    return bytes([_FAULTS.index(type(fault))]) + (fault.message or "").encode()


def decode_fault(body: bytes) -> StoreFault:
    return _FAULTS[body[0]](body[1:].decode())


def encode_ops(ops: Sequence[Op]) -> bytes:
    out = bytearray(_COUNT.pack(len(ops)))
    for op in ops:
        path = op.path.encode()
        match op:
            case Create(data=data, ephemeral=ephemeral):
                kind, version = _EPHEMERAL if ephemeral else _CREATE, 0
            case Set(data=data, version=version):
                kind = _SET
            case Delete(version=version):
                kind, data = _DELETE, b""
            case Check(version=version):
                kind, data = _CHECK, b""
        out += _OP.pack(kind, len(path), len(data), version) + path + data
    return bytes(out)


def decode_ops(body: bytes) -> list[Op]:
    """Raises BadMessage."""
    try:
        return list(_ops(body))
    except (struct.error, UnicodeDecodeError) as wrong:
        raise BadMessage(f"operations that cannot be read ({wrong})") from None


def _ops(body: bytes) -> Iterator[Op]:
    (count,) = _COUNT.unpack_from(body)
    at = _COUNT.size
    for _ in range(count):
        kind, path_length, data_length, version = _OP.unpack_from(body, at)
        at += _OP.size
        path = body[at : at + path_length].decode()
        at += path_length
        data = body[at : at + data_length]
        at += data_length
        if at > len(body):
            raise BadMessage("an operation that is cut off")
        match kind:
            case 1 | 2:
                yield Create(path, data, ephemeral=kind == _EPHEMERAL)
            case 3:
                yield Set(path, data, version)
            case 4:
                yield Delete(path, version)
            case 5:
                yield Check(path, version)
            case _:
                raise BadMessage(f"an operation of kind {kind}")
