"""Iteration order of a Java HashMap. Kafka's assignors take the first of several equal candidates in this order.

A Java HashMap is an array of buckets, doubled when it is three quarters full; a key's bucket is the low bits of its
hash. Keys of one bucket keep their insertion order. Our assignors iterate in the same order to make the same choices.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Final

_FIRST_SIZE: Final = 16
_WORD: Final = 0xFFFFFFFF


def in_java_order(keys: Collection[str], *, capacity: int = _FIRST_SIZE, most: int = 0) -> list[str]:
    """`capacity`: of a map that was made with one. `most`: the largest number of keys so far; a map never shrinks."""
    last = _table_size(max(len(keys), most), capacity) - 1
    return sorted(keys, key=lambda key: _spread(java_hash(key)) & last)


def ids_in_java_order(ids: Collection[uuid.UUID]) -> list[uuid.UUID]:
    last = _table_size(len(ids)) - 1
    return sorted(ids, key=lambda each: (_spread(_id_hash(each)) & last, each.int))


def numbers_in_java_order(numbers: Collection[int]) -> list[int]:
    """Order of a set that was made from a list at once, with a table of sufficient size."""
    size = _FIRST_SIZE
    while size < int(len(numbers) / 0.75) + 1:
        size *= 2
    return sorted(numbers, key=lambda number: (number & (size - 1), number))


def java_hash(text: str) -> int:
    """String.hashCode, of UTF-16 units, as an unsigned number."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (value * 31 + (data[at] << 8 | data[at + 1])) & _WORD
    return value


def _id_hash(each: uuid.UUID) -> int:
    folded = (each.int >> 64) ^ (each.int & 0xFFFFFFFFFFFFFFFF)
    return (folded >> 32 ^ folded) & _WORD


def _spread(value: int) -> int:
    return value ^ value >> 16


def _table_size(count: int, capacity: int = _FIRST_SIZE) -> int:
    size = 1
    while size < capacity:
        size *= 2
    while count > size * 3 // 4:
        size *= 2
    return size
