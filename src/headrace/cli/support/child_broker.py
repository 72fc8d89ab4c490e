"""A broker as a child process of a command: it ends with the command, also if the command is killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.kernel import parent_process
from headrace.kernel.errors import ErrorCode, Refused

_SERVES: Final = re.compile(r"serves \S+://([^:]+):(\d+)")
_STOP_TIMEOUT_S: Final = 30


@contextmanager
def child_broker(data: Path, port: int = 0) -> Iterator[str]:
    """Yields the broker's address. Port 0 takes a free one. Raises Refused if the broker does not start."""
    data.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "headrace.cli", "start", "--data", str(data), "--listen", f"127.0.0.1:{port}"]
    command.append(parent_process.OPTION)
    log = data.parent / f"{data.name}.log"
    with log.open("w") as out:
        # Its own session: the command handles Ctrl-C and stops the broker last.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True, start_new_session=True
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = _SERVES.search(line)
        if found is None:
            reason = line.strip() or log.read_text()[-500:].strip()
            raise Refused(ErrorCode.broker_not_available, f"the broker did not start: {reason}")
        yield f"127.0.0.1:{found[2]}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
