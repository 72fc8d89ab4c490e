"""Starts servers in the foreground (replacing this process) or in the background with a log file; stops them with
SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def run(command: list[str], *, background_log: str | None, handed_on: Sequence[int] = ()) -> int:
    """Replaces this process with the server, or starts it in the background with its output in logs/`background_log`.
    `handed_on`: inheritable files that the server keeps open."""
    if background_log is None:
        os.execv(command[0], command)
    folder = Path("logs")
    folder.mkdir(exist_ok=True)
    with (folder / background_log).open("ab") as out:
        started = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=handed_on
        )
    print(f"started in the background as process {started.pid}; its log is {folder / background_log}")
    return 0


def take_daemon_flag(words: list[str]) -> bool:
    if words and words[0] in ("-daemon", "--daemon"):
        words.pop(0)
        return True
    return False


def running(matches: Callable[[list[str]], bool]) -> list[int]:
    """Processes of this user whose command line matches."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            owner = entry.stat().st_uid
        except OSError:
            continue  # the process has ended meanwhile
        if owner == os.getuid() and matches(words):
            found.append(int(entry.name))
    return sorted(found)


def stop(what: str, matches: Callable[[list[str]], bool]) -> int:
    """Sends SIGTERM to every matching process, as Kafka's stop scripts do."""
    pids = running(matches)
    if not pids:
        print(f"No {what} to stop", file=sys.stderr)
        return 1
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    return 0
