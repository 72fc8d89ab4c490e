"""Answers on their way out of one connection: bytes, and slices of files that leave by sendfile.

`flush` sends as much as the socket takes. Small answers are copied behind each other as they come, so that those of one
round are one piece and leave by one system call; bytes in front of a file slice are sent with MSG_MORE, so that an
answer's head and its records share packets.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import Final

from headrace.net.replies import Bytes, FileSlice, Parts

# How much one connection may send before others have their turn: about a millisecond's worth on a fast link.
_TURN_BYTES: Final = 4 * 1024 * 1024
_MOST_GATHERED: Final = 512
# Up to this size copying an answer costs less than keeping it as a piece of its own.
_COPIED_BYTES: Final = 1024


class FileShrank(OSError):
    """A slice's file ends before the slice does: what was promised to the client cannot be sent."""


class SendQueue:
    __slots__ = ("_parts", "_sent_of_first", "_small", "size_bytes")

    def __init__(self) -> None:
        self._parts: deque[Bytes | FileSlice] = deque()
        self._sent_of_first = 0
        # The last piece, while it is one that small answers are copied to.
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
        self._small = None
        for part in parts:
            if isinstance(part, bytes | bytearray | memoryview):
                length = len(part)
            else:
                length = part.length
            if length:
                self._parts.append(part)
                self.size_bytes += length

    def clear(self) -> None:
        self._parts.clear()
        self._small = None
        self._sent_of_first = self.size_bytes = 0

    def send_alone(self, sock: socket.socket, part: bytearray) -> int:
        """Sends an answer that nothing stands before; what the socket does not take is queued."""
        assert not self.size_bytes, "answers keep their order"
        try:
            sent = sock.send(part)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(part):
            self.push(part[sent:])
        return sent

    def flush(self, sock: socket.socket) -> int:
        """Sends until the queue is empty, the socket is full or the turn is over; how many bytes went."""
        total = 0
        parts = self._parts
        while parts and total < _TURN_BYTES:
            try:
                first = parts[0]
                if isinstance(first, bytes | bytearray | memoryview):
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
            assert isinstance(only, bytes | bytearray | memoryview)
            return sock.send(memoryview(only)[self._sent_of_first :] if self._sent_of_first else only)
        gathered: list[Bytes] = []
        flags = 0
        for part in parts:
            if not isinstance(part, bytes | bytearray | memoryview):
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
            raise FileShrank(f"a segment file ends before position {part.position + part.length}")
        return sent

    def _drop(self, sent: int) -> None:
        self.size_bytes -= sent
        sent += self._sent_of_first
        parts = self._parts
        while parts:
            first = parts[0]
            length = len(first) if isinstance(first, bytes | bytearray | memoryview) else first.length
            if sent < length:
                break
            sent -= length
            parts.popleft()
            if first is self._small:
                self._small = None
        self._sent_of_first = sent
