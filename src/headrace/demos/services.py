"""Services of a demo: each is a process that runs `service.py` of the demo's directory, so that it can be killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from headrace.demos.errors import DemoFailed

_STOP_S: Final = 30


class Service:
    """`python service.py ROLE BOOTSTRAP [ARGUMENT …]`. SIGTERM ends it after the work at hand."""

    def __init__(self, file: Path, name: str, role: str, bootstrap: str, arguments: tuple[str, ...], log: Path) -> None:
        self.name, self._log = name, log
        self._command = [sys.executable, str(file), role, bootstrap, *arguments]
        self._is_ended = False
        log.parent.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        self._is_ended = False
        with self._log.open("a") as out:
            self.process = subprocess.Popen(
                self._command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def kill(self) -> None:
        """SIGKILL: what the service has in memory is gone."""
        self._is_ended = True
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Raises DemoFailed if the service ends with an error."""
        if self._is_ended:
            return
        self.check()
        self._is_ended = True
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise DemoFailed(f"service {self.name} does not end; its log is {self._log}") from None
        if self.process.returncode not in (0, -signal.SIGTERM):
            raise DemoFailed(self._reason())

    def check(self) -> None:
        """Raises DemoFailed if the service has ended by itself."""
        if not self._is_ended and self.process.poll() is not None:
            self._is_ended = True
            raise DemoFailed(self._reason())

    def _reason(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it wrote nothing"
        return f"service {self.name} ended with code {self.process.returncode}: {last} (log: {self._log})"
