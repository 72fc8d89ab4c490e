"""A Java PriorityQueue. Kafka's assignor takes the first of several equally loaded candidates in the order of its heap.

`heapq` keeps another order among equal entries, so the same input would give another assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class JavaPriorityQueue(Generic[Entry]):
    def __init__(self, weight: Callable[[Entry], float], entries: Iterable[Entry] = ()) -> None:
        self._weight = weight
        self._heap: list[Entry] = []
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, entry: Entry) -> None:
        heap, weight = self._heap, self._weight(entry)
        at = len(heap)
        heap.append(entry)
        while at > 0:
            parent = (at - 1) // 2
            if weight >= self._weight(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = entry

    def poll(self) -> Entry | None:
        """Removes and returns the lightest entry."""
        heap = self._heap
        if not heap:
            return None
        first, last = heap[0], heap.pop()
        if heap:
            self._sink(last)
        return first

    def _sink(self, entry: Entry) -> None:
        heap, weight = self._heap, self._weight(entry)
        at, size = 0, len(heap)
        while at < size // 2:
            child = 2 * at + 1
            right = child + 1
            if right < size and self._weight(heap[child]) > self._weight(heap[right]):
                child = right
            if weight <= self._weight(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = entry
