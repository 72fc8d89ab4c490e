"""The program under test: a process of its own, started again whenever it ends before the run does."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from headrace.testing.chaos.plan import PlanError

_RESTART_AFTER_S: Final = 0.5
_STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.05
_KEPT_OUTPUT: Final = 4000


class Application:
    """`crashes` counts its ends that were no fault of the plan. Safe to call from several threads."""

    def __init__(
        self, command: tuple[str, ...], directory: Path, environment: Mapping[str, str], log_file: Path
    ) -> None:
        self._command = [_filled(word, environment) for word in command]
        self._directory = directory
        self._environment = {**os.environ, **environment}
        self._log = log_file.open("ab")
        self.log_file = log_file
        self.crashes = 0
        self.starts = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._process = self._start()
        self._watcher = threading.Thread(target=self._watch, name="chaos application", daemon=True)
        self._watcher.start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        try:
            return subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
            )
        except OSError as error:
            raise PlanError(f"application {' '.join(self._command)!r} cannot be started: {error.strerror}") from error

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_S):
            with self._lock:
                if self._process.poll() is None or self._ended.is_set():
                    continue
                self.crashes += 1
            # A program that fails at once is not started in a tight loop.
            self._ended.wait(_RESTART_AFTER_S)
            with self._lock:
                if not self._ended.is_set():
                    self._process = self._start()

    def kill(self, while_dead: Callable[[], object] = lambda: None) -> None:
        """SIGKILL, and a new start when `while_dead` has returned."""
        with self._lock:
            self._process.kill()
            self._process.wait()
            while_dead()
            if not self._ended.is_set():
                self._process = self._start()

    def pause(self, seconds: float) -> None:
        """SIGSTOP for a time: a long garbage collection, or a laptop that sleeps."""
        with self._lock:
            self._process.send_signal(signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it does not help."""
        self._ended.set()
        with self._lock:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._watcher.join(_STOP_TIMEOUT_S)
        self._log.close()

    def last_output(self) -> str:
        """The end of what it printed."""
        data = self.log_file.read_bytes()[-_KEPT_OUTPUT:]
        return data.decode(errors="replace")


def _filled(word: str, environment: Mapping[str, str]) -> str:
    for name, value in environment.items():
        word = word.replace("{" + name.removeprefix("HEADRACE_").lower() + "}", value)
    return word
