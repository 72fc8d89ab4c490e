"""Copies of partitions for `headrace log recover --dry-run`: recovery itself runs on them, so nothing is guessed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path


def copies(partitions: Iterable[Path]) -> Iterator[Path]:
    """A copy of each partition in the temporary directory, gone when the next one is asked for."""
    for partition in partitions:
        with tempfile.TemporaryDirectory(prefix="headrace-dry-run-") as directory:
            yield Path(shutil.copytree(partition, Path(directory) / partition.name))
