"""Small Java programs of `tests/support/java`, compiled once against Apache Kafka's jars and driven line by line."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

from tests.reference import kafka

SOURCES = Path(__file__).with_name("java")
_CLASSES = kafka.CACHE / "test-classes"


def compiled(*names: str) -> str:
    """The class path with these classes. Compiles those whose source is newer."""
    jars = kafka.fetch()
    with kafka.one_at_a_time("test-classes"):
        _compile(names, jars)
    return f"{_CLASSES}:{jars}/*"


def _compile(names: tuple[str, ...], jars: Path) -> None:
    _CLASSES.mkdir(parents=True, exist_ok=True)
    stale = [
        name
        for name in names
        if not (built := _CLASSES / f"{name}.class").exists()
        or built.stat().st_mtime < (SOURCES / f"{name}.java").stat().st_mtime
    ]
    if stale:
        sources = [str(SOURCES / f"{name}.java") for name in stale]
        done = subprocess.run(
            ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(_CLASSES), *sources],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


class JavaError(Exception):
    """Exception of a Java call: its simple name, then its message."""

    @property
    def name(self) -> str:
        return str(self.args[0]).split(" ", 1)[0]


class JavaProgram:
    """A line-driven Java program: `ask("commit p")` returns the text after "ok", or raises JavaError."""

    def __init__(self, name: str, *arguments: str, heap: str = "192m") -> None:
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        self.process = subprocess.Popen(
            ["java", f"-Xmx{heap}", *quick, "-cp", compiled(name), name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline().strip()
        word, _, rest = answer.partition(" ")
        if word != "ok":
            raise JavaError(rest or "the program ended")
        return rest

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> JavaProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
