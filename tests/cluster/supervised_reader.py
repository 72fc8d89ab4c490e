"""A group's reader that is replaced when its client is locked up in itself, and only then.

librdkafka 2.16.0 can lock itself up when it takes leave of a broker that it has just asked where an epoch ended
(its issue 5476): one thread holds a partition's lock and waits for the client's, another the other way round. Such a
client reads nothing more, whatever the brokers do. That must not pass for records that were not delivered, and records
that are not delivered must not pass for it. So the one sign that counts is given by the process itself
(`group_reader`): it runs, and for so many of its own seconds the main thread of its client has done nothing. A client
that waits for brokers, one whose brokers give it nothing, and one whose process or machine stands still show no such
sign: they are left as they are, and what they do not read is counted as not delivered.

The replacement is another process in the same group. It reads on from what was committed, once the session of the one
that was killed has ended. How many were replaced is told, and bounded by whoever concludes.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).with_name("group_reader.py")
# Of the reader's own seconds. The statistics come every second, late by some on an overloaded machine.
LOCKED_UP_AFTER_TICKS: Final = 20
_ENDS_WITHIN_S: Final = 20


class SupervisedReader:
    """`run` hands over what the group reads, in its caller's thread, until `end`. `command`: what tells it."""

    def __init__(self, command: Sequence[str], *, ticks: int = LOCKED_UP_AFTER_TICKS) -> None:
        self.replaced = 0
        self._command = command
        self._ticks = ticks
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    @classmethod
    def of(cls, bootstrap: str, topic: str) -> SupervisedReader:
        return cls([sys.executable, str(PROGRAM), bootstrap, topic])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def run(self, read: Callable[[int, int, bytes], None]) -> None:
        """`read(partition, offset, value)` for every record."""
        while (process := self._begin()) is not None:
            locked_up = self._follow(process, read)
            if locked_up:
                process.kill()
                self.replaced += 1
            process.wait()
            if not locked_up and not self._ended.is_set():
                raise RuntimeError(f"the group's reader ended by itself with code {process.returncode}")

    def end(self) -> None:
        """The reader leaves its group; what it told until then is still handed over."""
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
        """Whether it had to be given up. Returns at the end of what it tells."""
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
