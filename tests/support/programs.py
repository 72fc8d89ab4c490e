"""Runs programs of Headrace many times: each run is a process forked from one that has loaded the modules.

A test needs the same conditions as a user (own process, environment, directory, streams, exit code) but not half a
second of imports for each of hundreds of runs. So one process loads the modules and then only forks:

    with Programs() as programs:
        done = programs.run("headrace.cli:main", ["topics", "ls"], env=…, cwd=…, stdin=b"", timeout=30)
        done.returncode, done.stdout, done.stderr

The forked child calls the function as an installed command does, or runs the module as `python -m` does. Other tests
check the start-up with the real commands.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import cast

LOADED = (
    "headrace.cli.app",
    "headrace.cli.kafka_tools.support.tool",
    "headrace.client.cluster_client",
    "typer._adapters",
)


class Programs:
    """Owns the process that forks. One run at a time."""

    def __init__(self) -> None:
        self._parent: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Programs:
        command = [sys.executable, "-m", "tests.support.programs"]
        root = Path(__file__).resolve().parents[2]
        # Unbuffered: the bytes that `select` waits for must not be in a buffer of this process.
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, bufsize=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._parent is not None
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait(30)
        self._parent.stdout.close()

    def run(
        self,
        module: str,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: bytes = b"",
        timeout: float = 30,
    ) -> subprocess.CompletedProcess[bytes]:
        parent = self._parent
        assert parent is not None
        assert parent.stdin is not None
        assert parent.stdout is not None
        with tempfile.TemporaryDirectory() as directory:
            streams = [Path(directory) / name for name in ("stdin", "stdout", "stderr")]
            streams[0].write_bytes(stdin)
            request = {
                "module": module, "words": list(words), "env": dict(env), "cwd": str(cwd),
                "streams": [str(path) for path in streams],
            }  # fmt: skip
            parent.stdin.write(json.dumps(request).encode() + b"\n")
            parent.stdin.flush()
            pid = int(parent.stdout.readline())
            if not select.select([parent.stdout], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                parent.stdout.readline()
                raise subprocess.TimeoutExpired([module, *words], timeout, *(p.read_bytes() for p in streams[1:]))
            code = int(parent.stdout.readline())
            return subprocess.CompletedProcess([module, *words], code, streams[1].read_bytes(), streams[2].read_bytes())


def _serve() -> None:
    """Reads one request per line, forks, writes the child's id and then its exit status."""
    for name in LOADED:
        __import__(name)
    answers = os.dup(1)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
        os.write(answers, f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(request: dict[str, object]) -> None:
    """In the child: sets streams, directory and arguments, then runs the program. Never returns."""
    code: object = 1
    try:
        stdin, stdout, stderr = cast("list[str]", request["streams"])
        for number, path, flags in (
            (0, stdin, os.O_RDONLY),
            (1, stdout, os.O_WRONLY | os.O_CREAT),
            (2, stderr, os.O_WRONLY | os.O_CREAT),
        ):
            os.dup2(os.open(path, flags), number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, encoding="utf-8", errors=errors, closefd=False)
            for number, mode, errors in ((0, "r", "strict"), (1, "w", "strict"), (2, "w", "backslashreplace"))
        )
        os.environ.clear()
        os.environ.update(request["env"])  # type: ignore[call-overload]
        os.chdir(str(request["cwd"]))
        module, _, function = str(request["module"]).partition(":")
        sys.argv = [module.split(".")[0], *cast("list[str]", request["words"])]
        if function:
            # An installed command is a script, not a module of a package. Programs look for their own name there.
            sys.modules["__main__"] = types.ModuleType("__main__")
            getattr(importlib.import_module(module), function)()
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    _serve()
