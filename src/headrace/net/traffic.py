"""What went through the connections of a listener."""

from __future__ import annotations


class Traffic:
    """Counted by connections, read by the metrics."""

    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "refused")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.accepted = self.closed = self.refused = 0
