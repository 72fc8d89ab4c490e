"""SQL statements over topics, each in a process of its own that is ended with its time limit.

The process is `headrace.cli.lake.sql_worker`. The layers keep the console apart from tables, and a query may take more
memory than the console. See the worker for the form of questions and answers.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
import time
from typing import Final

from headrace.client.security import ClientSecurity
from headrace.console.protection import Rejected
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue

TIMEOUT_S: Final = 60.0
MOST_ROWS: Final = 500
_AT_A_TIME: Final = 2
# Runs the worker with a request that has the fields of its class, without importing the class here.
_START: Final = (
    "import json, pickle, sys; from headrace.cli.lake.sql_worker import Request, answer; "
    "json.dump(answer(Request(*pickle.load(sys.stdin.buffer))), sys.stdout, default=str)"
)


@dataclass(frozen=True, slots=True)
class Rows:
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    has_more: bool
    elapsed_s: float
    error: str = ""

    @property
    def is_number(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        return tuple(kind.startswith(("int", "uint", "float", "double", "decimal")) for kind in self.types)


class SqlProcesses:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._running = 0

    async def run(self, bootstrap: str, security: ClientSecurity | None, statement: str) -> Rows:
        """Raises Rejected if too many statements run."""
        if self._running >= _AT_A_TIME:
            raise Rejected(503, f"{_AT_A_TIME} statements run already: try again when they have ended")
        self._running += 1
        began = time.perf_counter()
        try:
            found = await _answer(pickle.dumps((bootstrap, security, statement, MOST_ROWS)))
        finally:
            self._running -= 1
        rows = found.get("rows") or []
        return Rows(
            tuple(map(str, found.get("columns") or ())), tuple(map(str, found.get("types") or ())),
            tuple(tuple(row) for row in rows), bool(found.get("more")), time.perf_counter() - began,
            str(found.get("error") or ""),
        )  # fmt: skip


async def _answer(question: bytes) -> dict[str, JsonValue]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _START, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await asyncio.wait_for(process.communicate(question), TIMEOUT_S)
    except TimeoutError:
        return {"error": f"the statement was stopped after {TIMEOUT_S:.0f} s. Read fewer records: filter by timestamp"}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        found = json.loads(out)
    except ValueError:
        last = err.decode(errors="replace").strip().splitlines()[-1:]
        return {"error": f"the statement ended without an answer: {last[0] if last else f'exit {process.returncode}'}"}
    return found if isinstance(found, dict) else {"error": "the statement has no answer"}
