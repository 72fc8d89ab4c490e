"""Traffic counters of a listener: bytes and connections."""

from __future__ import annotations


class Traffic:
    """Counted by connections, read by the metrics."""

    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "failed_handshakes", "refused")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.accepted = self.closed = self.refused = self.failed_handshakes = 0
