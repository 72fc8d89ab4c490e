"""Copies of partitions for `headrace log recover --dry-run`, which runs the real recovery on them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path


def copies(partitions: Iterable[Path]) -> Iterator[Path]:
    """Copies one partition after another to a temporary directory. Deletes each copy before the next."""
    for partition in partitions:
        with tempfile.TemporaryDirectory(prefix="headrace-dry-run-") as directory:
            yield Path(shutil.copytree(partition, Path(directory) / partition.name))
