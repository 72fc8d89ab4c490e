"""Creates the directory of a new log with its topic id."""

from __future__ import annotations

import uuid
from pathlib import Path

from headrace.storage.dirs.checkpoints import write_topic_id
from headrace.storage.dirs.unopened_log import owner_of


def make_directory(directory: Path, topic_id: uuid.UUID | None) -> None:
    """The first flush syncs the topic id: until then the log has no record that could be lost."""
    directory.mkdir(exist_ok=True)
    if topic_id is not None and owner_of(directory) != topic_id:
        write_topic_id(directory, topic_id, durable=False)
