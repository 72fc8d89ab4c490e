"""Runs the checks for the web console, in a process of its own.

The layers keep the console apart from commands, and the checks may take seconds of a processor. The console starts a
Python that calls `answer` and reads JSON from its standard output: a list of findings that are not well.

The process acts with the login of the console's user, which it gets in the request. Checks of this machine (log
directories, ZooKeeper) have the rights of the console's process and not of its user, so a cluster with logins has none
of them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from headrace.cli.checks.diagnosis import CheckLimits, examine_as
from headrace.cli.checks.findings import State
from headrace.client.security import ClientSecurity

_LIMITS: Final = CheckLimits(timeout_s=5.0, watch_s=1.0, min_free_percent=10.0)
_OF_THIS_MACHINE: Final = ("strays", "zookeeper")


@dataclass(frozen=True)
class Request:
    bootstrap: str
    security: ClientSecurity | None


def answer(request: Request) -> list[dict[str, object]]:
    security = request.security
    protocol = "PLAINTEXT" if security is None else security.protocol
    has_login = protocol != "PLAINTEXT"
    found = asyncio.run(
        examine_as(
            request.bootstrap, _LIMITS, security, None if has_login else {}, protocol,
            _OF_THIS_MACHINE if has_login else (),
        )
    )  # fmt: skip
    return [
        {**finding.document(), "about": list(finding.about or ())} for finding in found if finding.state is not State.OK
    ]
