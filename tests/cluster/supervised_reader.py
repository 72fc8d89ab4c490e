"""A group reader that is replaced if its client deadlocks, and only then.

librdkafka 2.16.0 can deadlock when it removes a broker to which it has just sent OffsetForLeaderEpoch (its issue 5476):
one thread holds a partition's lock and waits for the client's, another the other way round. Such a client reads nothing
more, whatever the brokers do. The test must not count this as undelivered records, and must not hide undelivered
records behind it. So only one sign counts, and the process itself (`group_reader`) gives it: the process runs, and for
a number of its own seconds the main thread of its client has done nothing. A client that waits for brokers, one that
gets no records, and one whose process or machine is stopped do not show this sign. They are not replaced, and records
that they do not read count as undelivered.

The replacement is another process in the same group. It reads on from the committed offsets when the session of the
killed process has ended. `Load` reports the number of replacements, and the final check limits it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).with_name("group_reader.py")
# In seconds of the reader's own clock. The statistics come every second, some seconds late on an overloaded machine.
LOCKED_UP_AFTER_TICKS: Final = 20
_ENDS_WITHIN_S: Final = 20


class SupervisedReader:
    """`run` passes on the records that the group reads, in its caller's thread, until `end`. `command` starts the
    reader.
    """

    def __init__(self, command: Sequence[str], *, ticks: int = LOCKED_UP_AFTER_TICKS) -> None:
        self.replaced = 0
        self._command = command
        self._ticks = ticks
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str | int], topic: str) -> SupervisedReader:
        return cls([sys.executable, str(PROGRAM), json.dumps(dict(settings)), topic])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def run(self, read: Callable[[int, int, bytes], None]) -> None:
        """Calls `read(partition, offset, value)` for every record."""
        while (process := self._begin()) is not None:
            deadlocked = self._follow(process, read)
            if deadlocked:
                process.kill()
                self.replaced += 1
            process.wait()
            if not deadlocked and not self._ended.is_set():
                raise RuntimeError(f"the group's reader ended by itself with code {process.returncode}")

    def end(self) -> None:
        """The reader leaves its group. Records that it printed before are still passed on."""
        self._ended.set()
        with self._lock:
            process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()

    def _begin(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._ended.is_set():
                return None
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            return self._process

    def _follow(self, process: subprocess.Popen[str], read: Callable[[int, int, bytes], None]) -> bool:
        """Whether the reader deadlocked. Returns at the end of its output."""
        assert process.stdout is not None
        silent_ticks = 0
        with process.stdout:
            for line in process.stdout:
                what, *words = line.split()
                if what == "read":
                    read(int(words[0]), int(words[1]), words[2].encode())
                elif what == "alive":
                    silent_ticks = 0
                elif what == "tick":
                    silent_ticks += 1
                    if silent_ticks >= self._ticks and not self._ended.is_set():
                        return True
                else:
                    raise AssertionError(line)
        return False
