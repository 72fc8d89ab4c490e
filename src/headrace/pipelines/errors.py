"""Errors that a pipeline reports to its user.

PipelineError          one readable sentence: the thing, its value, the way out
├── OptionError        an option of format("headrace"), a pipeline file or a connector that cannot be used
└── DataLossError      records that the query should read no longer exist, and failOnDataLoss is on
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final


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


_PYTHON_ERROR: Final = re.compile(r"^(?!org\.|java\.|py4j\.|Caused by)([A-Za-z_][\w.]*): (.+)$")


def readable(error: object) -> str:
    """The message of a failure. In a Python traceback this is the last line, which names the exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("headrace.") and ": " in line]
    if ours:
        return ours[-1].split(": ", 1)[1][:500]
    if any("Traceback (most recent call last):" in line for line in lines):
        for line in reversed(lines):
            if (match := _PYTHON_ERROR.match(line)) and match[1].endswith(("Error", "Exception", "Warning")):
                return line[:500]
    return (lines[0] if lines else type(error).__name__)[:500]
