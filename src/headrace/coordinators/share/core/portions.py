"""Portions of a share partition: records that were acquired together (Kafka's in-flight batches).

A portion begins as whole batches of the log, as many as one fetch took. When released, it is delivered again as a
whole, until a member acknowledges a part of it. From then on its records are kept one by one. Portions never overlap.
Offsets that were never acquired are in no portion.
"""

from __future__ import annotations

from bisect import bisect_right

from headrace.kernel.dataclass import dataclass


@dataclass(slots=True)
class Portion:
    first: int
    last: int
    by_offset: bool = False

    def __len__(self) -> int:
        return self.last - self.first + 1

    def is_within(self, first: int, last: int) -> bool:
        return first <= self.first and self.last <= last


class Portions:
    def __init__(self) -> None:
        self._portions: list[Portion] = []

    def add(self, fresh: Portion) -> None:
        self._portions.insert(bisect_right(self._portions, fresh.first, key=lambda portion: portion.first), fresh)

    def overlapping(self, first: int, last: int) -> list[Portion]:
        at = bisect_right(self._portions, first, key=lambda portion: portion.first)
        if at and self._portions[at - 1].last >= first:
            at -= 1
        end = bisect_right(self._portions, last, key=lambda portion: portion.first)
        return self._portions[at:end]

    def take_apart(self, first: int, last: int) -> None:
        """An acknowledgement covers first…last: portions that are only partly in it are kept by offset from now on."""
        for portion in self.overlapping(first, last):
            portion.by_offset |= not portion.is_within(first, last)

    def begins_by(self, offset: int) -> bool:
        """Whether a portion begins at or before `offset`."""
        return bool(self._portions) and self._portions[0].first <= offset

    def drop_before(self, offset: int) -> None:
        """Drops portions that are finished as a whole. Others keep their first offset and their size."""
        gone = 0
        while gone < len(self._portions) and self._portions[gone].last < offset:
            gone += 1
        del self._portions[:gone]
