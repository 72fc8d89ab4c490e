"""Runs Kafka's own tools in one JVM: `ToolRunner.java` runs them one after the other and returns their output.

with KafkaTools() as tools:
    done = tools.run("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, "--list")
    done.code, done.out, done.err

`kafka_tool` runs one in a JVM that all tests of this process share.
"""

from __future__ import annotations

import atexit
import struct
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

from tests.reference.kafka import class_archive, fetch

SOURCE = Path(__file__).with_name("ToolRunner.java")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class KafkaTools:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> KafkaTools:
        options = [
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            *class_archive(),
        ]
        self._process = subprocess.Popen(
            ["java", *options, "-cp", f"{fetch()}/*", str(SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=-1,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def run(self, main_class: str, *arguments: str, stdin: str = "") -> Done:
        assert self._process is not None
        assert self._process.stdin is not None
        words = [main_class, *arguments]
        request = bytearray(struct.pack(">i", len(words)))
        for word in (*words, stdin):
            data = word.encode()
            request += struct.pack(">i", len(data)) + data
        self._process.stdin.write(request)
        self._process.stdin.flush()
        (code,) = struct.unpack(">i", self._read(4))
        return Done(code, self._text(), self._text())

    def _text(self) -> str:
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length).decode(errors="replace")

    def _read(self, length: int) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        data = self._process.stdout.read(length)
        if len(data) != length:
            raise RuntimeError("Kafka's tools ended: the JVM is gone")
        return data


@cache
def shared_tools() -> KafkaTools:
    """In one JVM for all tests of this process."""
    tools = KafkaTools().__enter__()
    atexit.register(tools.__exit__, None, None, None)
    return tools


def kafka_tool(main_class: str, *arguments: str) -> Done:
    """Runs one of Kafka's own tools in the JVM that this process keeps for them."""
    return shared_tools().run(main_class, *arguments)
