"""Runs the commands of a documentation page in order, and compares their output with the page.

    ```sh                                the block is run by bash, at a terminal, in a directory of the page
    ```text                              directly below: its output; `...` is any text, a line of it any lines
    ```sh title="Leave this running"     the block runs until the page ends or starts it again, and ends with Ctrl-C;
                                         the test continues when the text below has appeared
    ```python title="orders.py"          a file of that name in the page's directory; in any other language as well
    <!-- not run: REASON -->             directly above a block of commands that a test cannot run

Exported variables and the working directory persist between blocks. Ports of the page are replaced by free ones, and
back in the output. Times, ids and widths of tables are not compared.

`HEADRACE_DOCS=write pytest tests/docs` writes the actual output into the pages.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import pexpect

from headrace.net.free_ports import free_port
from tests.support.clock import PATIENCE_S, wait_for

ROOT: Final = Path(__file__).resolve().parents[2]
STAYS: Final = "Leave this running"
# A number between 5000 and 9000 has as many digits as the ports of the pages.
_NEAR: Final = range(5000, 8990)
# Ports of the pages: three brokers, ZooKeeper, metrics, a schema registry, the HTTP API, Kafka Connect, the listener
# between brokers.
_PORTS: Final = (9092, 9093, 9094, 2181, 9404, 8081, 8082, 8083, 19092)
_FENCE: Final = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_VOLATILE: Final = (
    (re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07"), ""),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "<time>"),
    (re.compile(r"\b[\w-]{22}\b(?=\W*$| │)", re.MULTILINE), "<id>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s)\b"), "<duration>"),
    (re.compile(r"\bheadrace \d+\.\d+\.\d+"), "headrace <version>"),
    (re.compile(r"[─━]+"), "─"),
    (re.compile(r" +"), " "),
)


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    text: str
    reason: str | None
    start: int
    end: int


@dataclass(frozen=True)
class Step:
    """Commands, and the block below them with their output."""

    commands: Block
    prints: Block | None


def blocks(text: str) -> list[Block]:
    return [
        Block(found["language"], found["title"], found["text"], found["reason"], found.start(), found.end())
        for found in _FENCE.finditer(text)
    ]


def steps(text: str) -> Iterator[Block | Step]:
    """The files and the commands of a page, in its order."""
    found = blocks(text)
    for number, block in enumerate(found):
        below = found[number + 1] if number + 1 < len(found) else None
        if block.language == "sh":
            is_output = (
                below is not None and below.language == "text" and text[block.end : below.start] in ("\n", "\n\n")
            )
            yield Step(block, below if is_output else None)
        elif block.title is not None:
            yield block


def plain(text: str) -> list[str]:
    """The lines to compare."""
    for pattern, instead in _VOLATILE:
        text = pattern.sub(instead, text)
    return [line.rstrip() for line in text.replace("\r", "").strip("\n").split("\n")]


def pattern_of(expected: str) -> str:
    """Pattern for the output of a block."""
    lines = []
    for line in plain(expected):
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*")
        else:
            lines.append(".*".join(re.escape(part) for part in line.split("...")) + r"\n")
    return "".join(lines)


def is_shown(expected: str, printed: str) -> bool:
    return re.fullmatch(pattern_of(expected), "\n".join(plain(printed)) + "\n") is not None


def has_appeared(expected: str, printed: str) -> bool:
    return re.search(r"(?:^|\n)" + pattern_of(expected), "\n".join(plain(printed)) + "\n") is not None


class LeftRunning:
    """A program that keeps running. A thread reads its output, because a full terminal would block it."""

    def __init__(self, program: pexpect.spawn[str]) -> None:
        self.printed = ""
        self._program = program
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def has_ended(self) -> bool:
        return not self._reader.is_alive()

    def _read(self) -> None:
        # OSError: `kill` closed the terminal while this thread was about to read it.
        with contextlib.suppress(pexpect.EOF, OSError):
            while True:
                self.printed += self._program.read_nonblocking(4096, timeout=None)

    def interrupt(self) -> int | None:
        """Sends Ctrl-C, unless a command of the page has stopped the program, and returns the exit code."""
        if not self.has_ended:
            self._program.sendintr()
        self._reader.join(PATIENCE_S)
        self._program.wait()
        self._program.close()
        return cast("int | None", self._program.exitstatus)

    def kill(self) -> None:
        self._program.close(force=True)


class PageRun:
    """One run of one page. A context manager: its end stops programs that still run."""

    def __init__(self, page: Path, directory: Path, environment: Mapping[str, str]) -> None:
        self.page = page
        self.text = page.read_text()
        self.directory = directory
        base = _three_ports()
        chosen = (base, base + 1, base + 2, *(free_port(_NEAR) for _ in _PORTS[3:]))
        self.ports = {str(port): str(instead) for port, instead in zip(_PORTS, chosen, strict=True)}
        self.environment = {
            # Neither our own settings nor the options of this run: a page runs pytest, too.
            **{name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE", "XDG", "PYTEST"))},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(directory),
            "TERM": "xterm",
            "HEADRACE_BOOTSTRAP": f"localhost:{self.ports['9092']}",
            **environment,
        }
        self.running: dict[str, LeftRunning] = {}
        self.printed: dict[Step, str] = {}

    def __enter__(self) -> PageRun:
        return self

    def __exit__(self, *_exception: object) -> None:
        for program in reversed(self.running.values()):
            program.kill()

    def read(self) -> None:
        for step in steps(self.text):
            if isinstance(step, Block):
                file = self.directory / str(step.title)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(self._moved(step.text))
            elif step.commands.reason is None:
                self._run(step)
        for commands in list(self.running):
            self._interrupt(commands)

    def _run(self, step: Step) -> None:
        commands = step.commands.text
        if step.commands.title == STAYS:
            if commands in self.running:
                self._interrupt(commands)
            self._leave_running(step)
            return
        process = self._spawn(f"{self._moved(commands)}\nexport -p > {self._state}; pwd > {self._state}.cwd")
        process.expect(pexpect.EOF)
        process.close()
        printed = self._returned(process.before or "")
        assert process.exitstatus == 0, f"{self._where(step)}\n{commands}\nexit code {process.exitstatus}\n{printed}"
        expected = "" if step.prints is None else step.prints.text
        self._compare(step, expected, printed, is_shown(expected, printed) if expected else not printed.strip())

    def _leave_running(self, step: Step) -> None:
        commands = step.commands.text
        # `exec`, so that Ctrl-C reaches the program itself, as at a prompt.
        program = self._spawn(f"exec {_with_ports(self._moved(commands), self.ports)}")
        running = self.running[commands] = LeftRunning(program)
        assert step.prints is not None, f"{self._where(step)}: the text below says when to go on"
        expected = step.prints.text
        wait_for(lambda: has_appeared(expected, self._returned(running.printed)) or running.has_ended, commands)
        shown = self._returned(running.printed)
        self._compare(step, expected, shown, has_appeared(expected, shown))

    def _interrupt(self, commands: str) -> None:
        running = self.running.pop(commands)
        code = running.interrupt()
        assert code == 0, f"{commands} ended with {code} after Ctrl-C\n{running.printed}"

    def _compare(self, step: Step, expected: str, printed: str, is_same: bool) -> None:
        if is_same:
            return
        if os.environ.get("HEADRACE_DOCS") == "write":
            self.printed[step] = printed
            return
        raise AssertionError(
            f"{self._where(step)}\n{step.commands.text}\n--- the page says\n{expected}\n--- it printed\n{printed}"
        )

    def write(self) -> None:
        """Writes different output into the page."""
        for step, printed in sorted(self.printed.items(), key=lambda item: -item[0].commands.start):
            shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed.replace("\r", "")).strip("\n")
            start, end = (step.prints.start, step.prints.end) if step.prints else (step.commands.end,) * 2
            block = f"```text\n{shown}\n```" if shown else ""
            self.text = self.text[:start] + (block if step.prints else f"\n{block}") + self.text[end:]
        self.page.write_text(self.text)

    @property
    def _state(self) -> Path:
        return self.directory / ".page-state"

    def _spawn(self, commands: str) -> pexpect.spawn[str]:
        again = f'. {self._state}; cd "$(cat {self._state}.cwd)"\n' if self._state.exists() else ""
        return pexpect.spawn(
            str(shutil.which("bash")), ["-c", f"set -e -o pipefail\n{again}{commands}"],
            cwd=str(self.directory), env=self.environment, encoding="utf-8", codec_errors="replace",
            timeout=PATIENCE_S * 2, dimensions=(60, 140), echo=False,
        )  # fmt: skip

    def _moved(self, text: str) -> str:
        return re.sub(r"\b\d{4}\b", lambda match: self.ports.get(match[0], match[0]), text)

    def _returned(self, text: str) -> str:
        back = {instead: port for port, instead in self.ports.items()}
        here = text.replace(str(self.directory), "~")
        return re.sub(r"\b\d{4}\b", lambda match: back.get(match[0], match[0]), here)

    def _where(self, step: Step) -> str:
        line = self.text.count("\n", 0, step.commands.start) + 1
        return f"{self.page.relative_to(ROOT)}:{line}"


def _three_ports() -> int:
    """Three consecutive free ports, for `headrace up`."""
    while True:
        first = free_port(_NEAR)
        try:
            if [free_port([port]) for port in (first + 1, first + 2)]:
                return first
        except OSError:
            continue


def _with_ports(command: str, ports: Mapping[str, str]) -> str:
    """Adds options for the ports that the command would choose by default."""
    if command.startswith("headrace start") and "--listen" not in command and ".properties" not in command:
        return f"{command.rstrip()} --listen 127.0.0.1:{ports['9092']}\n"
    if command.startswith("headrace up") and "--port" not in command:
        return f"{command.rstrip()} --port {ports['9092']} --zookeeper-port {ports['2181']}\n"
    return command
