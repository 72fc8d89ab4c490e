"""Suggestions for names that do not exist: "Did you mean 'orders'?"."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'orders'?`, or nothing."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""
