"""Skewed choices: the weights of a Zipf distribution."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random


def zipf_weights(number: int, skew: float) -> list[float]:
    return list(accumulate(1 / rank**skew for rank in range(1, number + 1)))


def skewed_index(random: Random, cumulative: Sequence[float], size: int) -> int:
    """An index below `size` with the weights of `zipf_weights`."""
    return bisect_right(cumulative, random.random() * cumulative[size - 1], 0, size - 1)
