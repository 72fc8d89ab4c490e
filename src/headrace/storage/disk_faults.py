"""Maps disk errors of one log to an answer or to an offline log.

On a full disk the log refuses the write and keeps serving. Any other error takes the log and its directory offline
(`on_fault`). A bug in the middle of an append takes only the log offline. A deleted log is offline too, for callers
that still hold it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.storage.files import is_no_space

logger = logging.getLogger(__name__)

# The reason that a deleted log gives to callers that still hold it.
DELETED: Final = "deleted"


class DiskFaults:
    """`offline_reason` is why the log is offline; None while it is online."""

    def __init__(self, partition: TopicPartition, directory: Path, on_fault: Callable[[OSError], None] | None) -> None:
        self.offline_reason: str | None = None
        self._partition = partition
        self.directory = directory
        self._on_fault = on_fault

    def offline(self) -> StorageFault:
        return StorageFault(f"{self._partition} is offline: {self.offline_reason}")

    def fault(self, error: OSError) -> StorageFault:
        """The fault to raise for `error`. The first error other than a full disk takes the log offline."""
        if is_no_space(error):
            return StorageFault(f"{self._partition}: no space left on {self.directory.parent}, free some to go on")
        if self.offline_reason is None:
            self.offline_reason = f"{error.strerror} on {error.filename or self.directory}"
            if self._on_fault is not None:
                self._on_fault(error)
        return self.offline()

    def inconsistent(self, bug: Exception) -> None:
        """Takes the log offline, because its memory does not agree with its files. The next start builds it from the
        files."""
        self.offline_reason = self.offline_reason or f"an append failed: {type(bug).__name__}: {bug}"
        logger.error("%s is offline until the next start: %s", self._partition, self.offline_reason)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """A context that turns an OSError into a StorageFault."""
        try:
            yield
        except OSError as error:
            raise self.fault(error) from error
