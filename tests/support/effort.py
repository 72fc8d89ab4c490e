"""Effort of long tests, by HEADRACE_EFFORT: `short` in `make test`, `long` in `make chaos`, `make simulate` and
`make fuzz`, `quick` in `make quick`.
"""

from __future__ import annotations

import os


def is_long() -> bool:
    return os.environ.get("HEADRACE_EFFORT", "short") == "long"


def is_quick() -> bool:
    """Few random examples, because a developer waits for the result."""
    return os.environ.get("HEADRACE_EFFORT", "short") == "quick"


def rounds(*, short: int, long: int) -> int:
    """`HEADRACE_ROUNDS=500` overrides both."""
    given = os.environ.get("HEADRACE_ROUNDS", "")
    return int(given) if given.isdigit() else long if is_long() else short
