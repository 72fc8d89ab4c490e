"""Which logs a broker has, and in which directory each of them is. The event loop owns it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.log import Log


class LogTable:
    def __init__(self) -> None:
        self._logs: dict[TopicPartition, Log] = {}
        self._home: dict[TopicPartition, LogDir] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._logs

    def __getitem__(self, key: TopicPartition) -> Log:
        return self._logs[key]

    def __iter__(self) -> Iterator[Log]:
        """The table may change while a caller walks over it."""
        return iter(tuple(self._logs.values()))

    def get(self, key: TopicPartition) -> Log | None:
        return self._logs.get(key)

    def home(self, key: TopicPartition) -> LogDir:
        return self._home[key]

    def put(self, log: Log, home: LogDir) -> None:
        """Adds a log, or replaces the one of its partition."""
        self._logs[log.name] = log
        self._home[log.name] = home

    def pop(self, key: TopicPartition) -> tuple[Log, LogDir]:
        return self._logs.pop(key), self._home.pop(key)

    def clear(self) -> None:
        self._logs.clear()
        self._home.clear()

    def in_directory(self, directory: LogDir) -> list[Log]:
        return [log for key, log in self._logs.items() if self._home[key] is directory]

    def emptiest(self, directories: list[LogDir]) -> LogDir:
        """The directory with the fewest logs."""
        if len(directories) == 1:
            return directories[0]
        # By identity: hashing paths would make the creation of a large topic take seconds.
        counts = Counter(map(id, self._home.values()))
        return min(directories, key=lambda directory: counts[id(directory)])
