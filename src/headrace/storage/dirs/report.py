"""One log directory as DescribeLogDirs reports it."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.log import Log


@dataclass(frozen=True, slots=True)
class DirectoryReport:
    path: Path
    directory_id: uuid.UUID | None
    offline_reason: str | None
    total_bytes: int
    usable_bytes: int
    logs: tuple[Log, ...]
    is_cordoned: bool = False

    @classmethod
    def of(cls, directory: LogDir, logs: list[Log], *, is_cordoned: bool) -> DirectoryReport:
        try:
            total, _, usable = shutil.disk_usage(directory.path)
        except OSError:
            total = usable = -1
        directory_id = None if directory.identity is None else directory.identity.directory_id
        return cls(directory.path, directory_id, directory.offline_reason, total, usable, tuple(logs), is_cordoned)
