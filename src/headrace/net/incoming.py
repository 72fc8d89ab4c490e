"""Receive buffer of one connection. Borrowed from the pool while it holds unprocessed bytes.

Bytes from `start` to `end` are received; new bytes go after `end`. Owned by the event loop.

Before its login a client is not trusted: it gets memory for bytes that it has sent, not for bytes that it announces,
and all such clients together have a limit. Otherwise a thousand connections with four bytes each hold a gigabyte.
"""

from __future__ import annotations

from typing import Final

from headrace.net.buffers import SMALLEST_BYTES, BufferPool

# The buffer of a larger frame grows step by step with the received bytes.
_TRUSTED_FRAME_BYTES: Final = 4 * 1024 * 1024


class Incoming:
    __slots__ = ("_counted_bytes", "_pool", "_read_to", "_trusted_bytes", "_wanted_bytes", "buffer", "end", "start")

    def __init__(self, pool: BufferPool, *, is_login: bool = False) -> None:
        """`is_login`: the client must log in first."""
        self._pool = pool
        self._trusted_bytes = SMALLEST_BYTES if is_login else _TRUSTED_FRAME_BYTES
        # What this buffer counts towards the limit of all logins.
        self._counted_bytes = 0
        self.buffer: memoryview | None = None
        self.start = self.end = self._read_to = 0
        self._wanted_bytes = SMALLEST_BYTES

    def trust(self) -> None:
        """The client has logged in."""
        self._trusted_bytes = _TRUSTED_FRAME_BYTES
        self._count(0)

    def room(self) -> memoryview:
        """The free part of the buffer."""
        buffer = self.buffer
        if buffer is None:
            buffer = self.buffer = self._pool.lend(self._wanted_bytes)
            self.start = self.end = 0
            self._read_to = len(buffer)
        return buffer[self.end : self._read_to]

    def make_room(self, needed: int) -> bool:
        """Returns an empty buffer to the pool, or makes room for the started frame (`needed` bytes; 0: whole frames
        wait, or its length is not known yet). False if the pool has no memory for that."""
        buffer, start, end = self.buffer, self.start, self.end
        assert buffer is not None
        if start == end:
            # The next frame probably has the same size.
            self._wanted_bytes = min(start, _TRUSTED_FRAME_BYTES)
            self.buffer = None
            self._pool.give_back(buffer)
            if self._counted_bytes:
                self._count(0)
            return True
        if not needed:
            if len(buffer) - start < 4:
                self._move(buffer)
            self._read_to = len(buffer)
            return True
        if needed > len(buffer):
            grown = min(needed, max(self._trusted_bytes, 2 * (end - start)))
            if grown > len(buffer):
                if grown > self._trusted_bytes and not self._may_grow(grown):
                    return False
                larger = self._pool.lend(grown)
                larger[: end - start] = buffer[start:end]
                self._pool.give_back(buffer)
                buffer = self.buffer = larger
                self.start, self.end = 0, end - start
        elif start + needed > len(buffer):
            self._move(buffer)
        # A large frame is read exactly to its end: the next one begins at the front, and no bytes are moved.
        whole = self.start + needed
        self._read_to = min(whole, len(buffer)) if needed > SMALLEST_BYTES else len(buffer)
        return True

    def _may_grow(self, size: int) -> bool:
        if self._trusted_bytes == _TRUSTED_FRAME_BYTES:
            return self._pool.has_room_for(size)
        if not self._pool.has_room_for_login(size - self._counted_bytes):
            return False
        self._count(size)
        return True

    def _count(self, size: int) -> None:
        self._pool.login_bytes += size - self._counted_bytes
        self._counted_bytes = size

    def _move(self, buffer: memoryview) -> None:
        length = self.end - self.start
        buffer[:length] = buffer[self.start : self.end]
        self.start, self.end = 0, length

    def give_back(self) -> None:
        """Returns the buffer and drops its content."""
        if self.buffer is not None:
            self._pool.give_back(self.buffer)
            self.buffer = None
        self._count(0)
