"""Receive buffer of one connection. Borrowed from the pool while it holds unprocessed bytes.

Bytes from `start` to `end` are received; new bytes go after `end`. Owned by the event loop.
"""

from __future__ import annotations

from typing import Final

from headrace.net.buffers import SMALLEST_BYTES, BufferPool

# The buffer of a larger frame grows step by step with the received bytes.
_TRUSTED_FRAME_BYTES: Final = 4 * 1024 * 1024


class Incoming:
    __slots__ = ("_pool", "_read_to", "_wanted_bytes", "buffer", "end", "start")

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self.buffer: memoryview | None = None
        self.start = self.end = self._read_to = 0
        self._wanted_bytes = SMALLEST_BYTES

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
            return True
        if not needed:
            if len(buffer) - start < 4:
                self._move(buffer)
            self._read_to = len(buffer)
            return True
        if needed > len(buffer):
            grown = min(needed, max(_TRUSTED_FRAME_BYTES, 2 * (end - start)))
            if grown > len(buffer):
                if grown > _TRUSTED_FRAME_BYTES and not self._pool.has_room_for(grown):
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

    def _move(self, buffer: memoryview) -> None:
        length = self.end - self.start
        buffer[:length] = buffer[self.start : self.end]
        self.start, self.end = 0, length

    def give_back(self) -> None:
        """Returns the buffer and drops its content."""
        if self.buffer is not None:
            self._pool.give_back(self.buffer)
            self.buffer = None
