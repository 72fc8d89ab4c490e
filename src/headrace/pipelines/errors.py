"""Errors that a pipeline reports to its user.

PipelineError          one readable sentence: the thing, its value, the way out
├── OptionError        an option of format("headrace"), a pipeline file or a connector that cannot be used
└── DataLossError      records that the query should read no longer exist, and failOnDataLoss is on
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


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean "subscribe"?)` or nothing."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f' (did you mean "{by_lower[close[0]]}"?)' if close else ""
