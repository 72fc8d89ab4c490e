"""Marks a log that lacks records which its broker had stored, until it has fetched them from another replica.

A file in the directory of the log, so that every later start knows it, whatever the controller has heard. Kafka ignores
the file. The only replica of a partition gets no mark: no other one has its records.

The mark of a new log, in place of a missing one, is its first file. A start takes a directory without any file for no
log (`contents.is_begun`). So a crash at any step leaves a missing log or an incomplete one, never a complete one.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from headrace.storage.files import write_small_file

MARK_FILE: Final = "incomplete"


def mark(log: Path, reason: str) -> None:
    """The directory may not exist yet. Raises OSError."""
    log.mkdir(exist_ok=True)
    write_small_file(log / MARK_FILE, f"{reason}\n".encode())


def is_marked(log: Path) -> bool:
    return (log / MARK_FILE).exists()


def remove_mark(log: Path) -> None:
    # If this fails, the replica fetches nothing again: it is in sync at once after the next start.
    with contextlib.suppress(OSError):
        (log / MARK_FILE).unlink(missing_ok=True)
