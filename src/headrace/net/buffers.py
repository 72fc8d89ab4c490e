"""Pool of receive buffers. A connection borrows one only while it receives.

An idle connection holds no buffer, so thousands of them cost little. A busy one gets the buffer that was used last,
which is still in the CPU cache. Sizes are powers of two, so that a returned buffer fits the next connection.
"""

from __future__ import annotations

from typing import Final

# Small enough for many active connections, large enough to receive a burst of small requests with one call.
SMALLEST_BYTES: Final = 64 * 1024
# Bytes kept for reuse; the rest is returned to the system.
KEPT_BYTES: Final = 16 * 1024 * 1024
# Memory for large frames of all connections together; further ones wait. A single frame always gets its memory.
LARGEST_TOTAL_BYTES: Final = 512 * 1024 * 1024
# The same for clients that have not logged in, beside the smallest buffers, which are enough for the tokens of logins.
LARGEST_LOGIN_TOTAL_BYTES: Final = 32 * 1024 * 1024


class BufferPool:
    def __init__(self, kept_bytes: int = KEPT_BYTES, largest_total_bytes: int = LARGEST_TOTAL_BYTES) -> None:
        self.lent_bytes = 0
        self.login_bytes = 0
        self._largest_total_bytes = largest_total_bytes
        self._kept_bytes = kept_bytes
        self._free_bytes = 0
        self._free: dict[int, list[memoryview]] = {}

    def lend(self, at_least: int) -> memoryview:
        size = SMALLEST_BYTES if at_least <= SMALLEST_BYTES else 1 << (at_least - 1).bit_length()
        self.lent_bytes += size
        free = self._free.get(size)
        if free:
            self._free_bytes -= size
            return free.pop()
        return memoryview(bytearray(size))

    def has_room_for(self, size: int) -> bool:
        return self.lent_bytes + size <= self._largest_total_bytes

    def has_room_for_login(self, size: int) -> bool:
        return self.login_bytes + size <= LARGEST_LOGIN_TOTAL_BYTES

    def give_back(self, buffer: memoryview) -> None:
        size = len(buffer)
        self.lent_bytes -= size
        if self._free_bytes + size <= self._kept_bytes:
            self._free.setdefault(size, []).append(buffer)
            self._free_bytes += size
