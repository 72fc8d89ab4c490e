"""Counted nouns in messages: `1 record`, `2 records`."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`plural` where the noun does not just take an s: `counted(2, "entry", "entries")`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
