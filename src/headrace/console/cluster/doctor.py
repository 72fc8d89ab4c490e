"""What `headrace doctor` finds in the cluster, for the overview.

The checks run in a process of their own, `headrace.cli.checks.worker`, with the login of the user. They measure lag
twice and ask every broker, so they run at most once in some minutes, and when a person asks for it.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
import time
from typing import Final

from headrace.client.security import ClientSecurity
from headrace.kernel.dataclass import dataclass

EVERY_S: Final = 300.0
_TIMEOUT_S: Final = 90.0
# Runs the worker with a request that has the fields of its class, without importing the class here.
_START: Final = (
    "import json, pickle, sys; from headrace.cli.checks.worker import Request, answer; "
    "json.dump(answer(Request(*pickle.load(sys.stdin.buffer))), sys.stdout)"
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    check: str
    is_broken: bool
    found: str
    remedy: str
    details: tuple[str, ...]
    about: tuple[str, str] | None
    """(kind, name) of what it is about: group, topic, transaction, broker or disk."""


class Doctor:
    """Owned by the event loop."""

    def __init__(self, bootstrap: str, security: ClientSecurity | None) -> None:
        self.findings: tuple[Diagnosis, ...] = ()
        self.at_s: float | None = None
        """When the findings were made; None before the first examination has ended."""
        self.error = ""
        self._bootstrap = bootstrap
        self._security = security
        self._running: asyncio.Task[None] | None = None

    @property
    def is_examining(self) -> bool:
        return self._running is not None and not self._running.done()

    def examine(self, *, now: bool = False) -> None:
        """Starts an examination in the background, if the last one is old or a person wants it."""
        is_old = self.at_s is None or time.time() - self.at_s > EVERY_S
        if (now or is_old) and not self.is_examining:
            self._running = asyncio.create_task(self._examine())

    async def ended(self, within_s: float) -> None:
        """Waits for a running examination, but not longer than this."""
        if self._running is not None:
            await asyncio.wait([self._running], timeout=within_s)

    async def _examine(self) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _START, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            question = pickle.dumps((self._bootstrap, self._security))
            out, err = await asyncio.wait_for(process.communicate(question), _TIMEOUT_S)
        except TimeoutError:
            self.error = f"the checks did not end within {_TIMEOUT_S:.0f} s"
            return
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            self.at_s = time.time()
        try:
            self.findings = tuple(_diagnosis(one) for one in json.loads(out))
            self.error = ""
        except (ValueError, TypeError, KeyError, AttributeError):
            last = err.decode(errors="replace").strip().splitlines()[-1:]
            self.error = f"the checks ended without an answer: {last[0] if last else f'exit {process.returncode}'}"

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)


def _diagnosis(found: dict[str, object]) -> Diagnosis:
    about, details = found["about"], found["details"]
    assert isinstance(about, list) and isinstance(details, list)
    return Diagnosis(
        str(found["check"]), found["state"] == "fail", str(found["found"]), str(found["do"] or ""),
        tuple(map(str, details)), (str(about[0]), str(about[1])) if len(about) == 2 else None,
    )  # fmt: skip
