"""A process that ends with the one that started it, also if that one was killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Final

OPTION: Final = "--stop-with-input"


def stop_with_input() -> None:
    """The process that started this one holds the other end of standard input, a pipe. The pipe ends with that process,
    and this one then stops as for SIGTERM."""
    threading.Thread(target=_stop_at_the_end, name="end of input", daemon=True).start()


def _stop_at_the_end() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
