"""Which directory gets the log of a new replica: the one that an operator named for it (AlterReplicaLogDirs), else the
online directory with the fewest logs, if possible one that is not cordoned (KIP-1066)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.config.broker_config import ALL_LOG_DIRS
from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.log_table import LogTable


class DirectoryChoice:
    """`cordoned` gives the present `cordoned.log.dirs`."""

    def __init__(self, directories: Sequence[LogDir], logs: LogTable, cordoned: Callable[[], Sequence[str]]) -> None:
        self._directories = directories
        self._logs = logs
        self._cordoned = cordoned
        self._wanted: dict[TopicPartition, LogDir] = {}

    def want(self, key: TopicPartition, directory: LogDir) -> None:
        """If this broker gets the replica later, its log is created in `directory`."""
        self._wanted[key] = directory

    def is_cordoned(self, directory: LogDir) -> bool:
        """Whether the directory gets no new logs."""
        names = self._cordoned()
        return ALL_LOG_DIRS in names or any(Path(name).absolute() == directory.path.absolute() for name in names)

    def take(self, key: TopicPartition) -> LogDir:
        """The directory for a log that is created now. Raises StorageFault."""
        wanted = self._wanted.pop(key, None)
        if wanted is not None and wanted.is_online:
            return wanted
        online = [one for one in self._directories if one.is_online]
        if not online:
            raise StorageFault("no online log directory to create a log in")
        # The controller may have placed the partition here just before all directories were cordoned.
        return self._logs.emptiest([one for one in online if not self.is_cordoned(one)] or online)
