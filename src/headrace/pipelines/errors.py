"""Errors that a pipeline reports to its user.

PipelineError          one readable sentence: the thing, its value, the way out
├── OptionError        an option of format("headrace"), a pipeline file or a connector that cannot be used
├── DataLossError      records that the query should read no longer exist, and failOnDataLoss is on
└── FlowStopped        the rows do not fit the target: a person must decide, other flows go on
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PipelineError(Exception):
    pass


class OptionError(PipelineError, ValueError):
    pass


class DataLossError(PipelineError):
    pass


class FlowStopped(PipelineError):
    pass


def is_permanent(text: str) -> bool:
    """Whether this failure, as Spark reports it, cannot go away by itself: a new start would fail again."""
    return FlowStopped.__name__ in text or "[USER_RAISED_EXCEPTION]" in text


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean "subscribe"?)` or nothing."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f' (did you mean "{by_lower[close[0]]}"?)' if close else ""
