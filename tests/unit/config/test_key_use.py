"""Keys that the code reads are declared."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS

SOURCE = Path(__file__).resolve().parents[3] / "src" / "headrace"
BROKER_SIDE = ("broker", "handlers", "controller", "coordinators", "replication", "cluster", "storage", "coordination")
# Properties of files and features, read the same way.
OTHERS = {"cluster.id", "directory.id", "transaction.version"}


def test_every_key_that_the_broker_reads_is_declared() -> None:
    """A key that is not would stop whatever reads it, perhaps hours after the start."""
    known = {*BROKER_KEYS, *TOPIC_KEYS, *GROUP_KEYS, *OTHERS}
    unknown = {
        (str(file.relative_to(SOURCE)), name)
        for folder in BROKER_SIDE
        for file in (SOURCE / folder).rglob("*.py")
        for name in re.findall(r'(?:\[|\()"([a-z]+(?:\.[a-z0-9]+)+)"[\])]', file.read_text())
        if name not in known and not name.startswith("headrace.")
    }
    assert unknown == set()
