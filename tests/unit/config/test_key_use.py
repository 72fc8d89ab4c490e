"""Keys and the code agree: what is read is declared, what is declared is read or says that it is not."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, Key

SOURCE = Path(__file__).resolve().parents[3] / "src" / "headrace"
BROKER_SIDE = (
    *("broker", "handlers", "controller", "coordinators", "replication", "cluster", "storage", "coordination", "net"),
    "telemetry",
)
# Where the configuration itself gives a key its effect.
IN_CONFIG = ("broker_config.py", "listeners.py", "topic_config.py")
# Properties of files and features, read the same way.
OTHERS = {"cluster.id", "directory.id", "transaction.version"}

FILES = [file for folder in BROKER_SIDE for file in (SOURCE / folder).rglob("*.py")]
CODE = "".join(file.read_text() for file in [*FILES, *(SOURCE / "config" / name for name in IN_CONFIG)])


def test_every_key_that_the_broker_reads_is_declared() -> None:
    """A key that is not would stop whatever reads it, perhaps hours after the start."""
    known = {*BROKER_KEYS, *TOPIC_KEYS, *GROUP_KEYS, *OTHERS}
    unknown = {
        (str(file.relative_to(SOURCE)), name)
        for file in FILES
        for name in re.findall(r'(?:\[|\()"([a-z]+(?:\.[a-z0-9]+)+)"[\])]', file.read_text())
        if name not in known and not name.startswith("headrace.")
    }
    assert unknown == set()


def _is_read(key: Key) -> bool:
    if f'"{key.name}"' in CODE:
        return True
    if key.name in TOPIC_KEYS:  # the log reads its topic's keys by the names of LogConfig's fields
        return re.search(rf"\b{key.name.replace('.', '_')}\b", CODE) is not None
    inherited = any(
        synonym.name == key.name and _is_read(heir)
        for heir in (*TOPIC_KEYS.values(), *GROUP_KEYS.values())
        for synonym in heir.synonyms
    )
    bound = re.match(r"group\.(consumer|share|streams)\.(min|max)\.", key.name)  # bounds of a group's own keys
    return inherited or bound is not None


def test_a_key_that_nothing_reads_says_that_it_is_without_effect() -> None:
    """A setting that silently does nothing is a trap."""
    silent = [
        key.name
        for table in (BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS)
        for key in table.values()
        if not key.difference and not _is_read(key)
    ]
    assert silent == []


def test_a_key_that_is_read_does_not_say_that_it_is_without_effect() -> None:
    stale = [
        key.name
        for table in (BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS)
        for key in table.values()
        if key.difference.startswith("Without effect") and f'"{key.name}"' in CODE
    ]
    assert stale == []
