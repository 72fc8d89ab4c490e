"""A call of a C library that may never return: it gets a thread, and the caller a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable


class CallStuck(Exception):
    """The call did not return in time. Its thread still waits, and what it uses must not be used again."""


def call_within(timeout_s: float, call: Callable[[], object]) -> None:
    """Raises what `call` raises, or CallStuck."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as failure:  # boundary of the thread: the caller raises it
            failures.append(failure)

    # A daemon: a call that never returns must not keep the process alive.
    thread = threading.Thread(target=run, name="headrace bounded call", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise CallStuck
    if failures:
        raise failures[0]
