"""Answers to send on one connection: bytes, and slices of files that are sent by sendfile.

`flush` sends as much as the socket takes. Small answers are copied into one piece, so that the answers of one round are
sent by one system call. The same holds for small slices: reading them costs less than sendfile with two extra calls for
the bytes before and after. Bytes in front of a larger slice are sent with MSG_MORE, so that an answer's head and its
records share packets.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import Final

from headrace.net.replies import Bytes, FileSlice, Parts

# Bytes that one connection may send in one turn: about a millisecond on a fast link.
_TURN_BYTES: Final = 4 * 1024 * 1024
_MOST_GATHERED: Final = 512
# Up to this size copying an answer costs less than a separate piece.
_COPIED_BYTES: Final = 1024
# Up to this size an answer with slices is read and sent as one piece.
_READ_BYTES: Final = 16 * 1024
BYTES: Final = (bytes, bytearray, memoryview)


class FileShrank(OSError):
    """A file ends before its slice: the announced bytes cannot be sent."""


class SendQueue:
    __slots__ = ("_parts", "_sent_of_first", "_small", "size_bytes")

    def __init__(self) -> None:
        self._parts: deque[Bytes | FileSlice] = deque()
        self._sent_of_first = 0
        # The last piece, if small answers can be copied to it.
        self._small: bytearray | None = None
        self.size_bytes = 0

    def push(self, part: Bytes) -> None:
        size = len(part)
        self.size_bytes += size
        if size > _COPIED_BYTES:
            self._small = None
            self._parts.append(part)
        elif self._small is None:
            self._small = bytearray(part)
            self._parts.append(self._small)
        else:
            self._small += part

    def push_all(self, parts: Parts) -> None:
        """Raises FileShrank."""
        lengths = [len(part) if isinstance(part, BYTES) else part.length for part in parts]
        total = sum(lengths)
        if total <= _READ_BYTES:
            self.push(_in_one_piece(parts))
            return
        self._small = None
        self.size_bytes += total
        self._parts.extend(part for part, length in zip(parts, lengths, strict=True) if length)

    def clear(self) -> None:
        self._parts.clear()
        self._small = None
        self._sent_of_first = self.size_bytes = 0

    def send_alone(self, sock: socket.socket, part: bytearray) -> int:
        """Sends an answer while the queue is empty; the rest that the socket does not take is queued."""
        assert not self.size_bytes, "answers keep their order"
        try:
            sent = sock.send(part)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(part):
            self.push(part[sent:])
        return sent

    def flush(self, sock: socket.socket) -> int:
        """Sends until the queue is empty, the socket is full or the turn is over. Returns the number of bytes."""
        total = 0
        parts = self._parts
        while parts and total < _TURN_BYTES:
            try:
                first = parts[0]
                if isinstance(first, BYTES):
                    sent = self._send_bytes(sock)
                else:
                    sent = self._send_slice(sock, first)
            except (BlockingIOError, InterruptedError):
                break
            total += sent
            if sent == self.size_bytes:
                self.clear()
            else:
                self._drop(sent)
        return total

    def _send_bytes(self, sock: socket.socket) -> int:
        parts = self._parts
        if len(parts) == 1:
            only = parts[0]
            assert isinstance(only, BYTES)
            return sock.send(memoryview(only)[self._sent_of_first :] if self._sent_of_first else only)
        gathered: list[Bytes] = []
        flags = 0
        for part in parts:
            if not isinstance(part, BYTES):
                flags = socket.MSG_MORE
                break
            gathered.append(part)
            if len(gathered) == _MOST_GATHERED:
                break
        if self._sent_of_first:
            gathered[0] = memoryview(gathered[0])[self._sent_of_first :]
        return sock.sendmsg(gathered, (), flags)

    def _send_slice(self, sock: socket.socket, part: FileSlice) -> int:
        done = self._sent_of_first
        count = min(part.length - done, _TURN_BYTES)
        sent = os.sendfile(sock.fileno(), part.file.fileno(), part.position + done, count)
        if sent == 0:
            raise file_shrank(part)
        return sent

    def _drop(self, sent: int) -> None:
        self.size_bytes -= sent
        sent += self._sent_of_first
        parts = self._parts
        while parts:
            first = parts[0]
            length = len(first) if isinstance(first, BYTES) else first.length
            if sent < length:
                break
            sent -= length
            parts.popleft()
            if first is self._small:
                self._small = None
        self._sent_of_first = sent


def _in_one_piece(parts: Parts) -> Bytes:
    first = parts[0]
    if len(parts) == 1 and isinstance(first, BYTES):
        return first
    whole = bytearray()
    for part in parts:
        if isinstance(part, BYTES):
            whole += part
            continue
        records = os.pread(part.file.fileno(), part.length, part.position)
        if len(records) != part.length:
            raise file_shrank(part)
        whole += records
    return whole


def file_shrank(part: FileSlice) -> FileShrank:
    return FileShrank(f"a segment file ends before position {part.position + part.length}")
