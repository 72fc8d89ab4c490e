"""The authorizer's log: one line for each denied check, in Kafka's words, under Kafka's logger name.

Denials are written at INFO. Allowed checks are written when the level of this logger itself is DEBUG. Names come from
clients, so the log shows them escaped and limits their length. A client that is denied thousands of times a second must
not fill the disk: each second the log takes MAX_LINES_PER_SECOND lines, and one more with the number of the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from headrace.security.acl.model import Operation, ResourceType
from headrace.security.principal import printable
from headrace.telemetry.logs import AUTHORIZER
from headrace.wire.apis import api_name

if TYPE_CHECKING:
    from headrace.security.acl.authorizer import Decision

logger = logging.getLogger(AUTHORIZER)

MAX_LINES_PER_SECOND: Final = 100

# Takes the fields of one denial.
Record = Callable[[Mapping[str, object]], None]


class Audit:
    """Owned by the event loop. `record` keeps denials elsewhere, too."""

    def __init__(self, record: Record | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._record = record
        self._monotonic = monotonic
        self._second = 0
        self._lines = 0

    def decided(
        self,
        decision: Decision,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        api_key: int,
    ) -> None:
        if self._record is not None and not decision.allowed:
            self._record(
                {
                    "principal": principal,
                    "host": host,
                    "operation": operation.name,
                    "resource_type": resource_type.name,
                    "resource_name": name,
                    "request": _words(api_name(api_key)),
                    "allowed": False,
                    "rule": decision.rule,
                }
            )
        level = logging.DEBUG if decision.allowed else logging.INFO
        if not logger.isEnabledFor(level) or not self._has_room():
            return
        logger.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
            "with resourceRefCount = 1 based on rule %s",
            printable(principal),
            "Allowed" if decision.allowed else "Denied",
            operation.name,
            host,
            _words(resource_type.name),
            printable(name),
            _words(api_name(api_key)),
            printable(decision.rule),
        )

    def _has_room(self) -> bool:
        second = int(self._monotonic())
        if second != self._second:
            if self._lines > MAX_LINES_PER_SECOND:
                logger.info("%d more decisions within one second are not shown", self._lines - MAX_LINES_PER_SECOND)
            self._second, self._lines = second, 0
        self._lines += 1
        return self._lines <= MAX_LINES_PER_SECOND


def _words(name: str) -> str:
    """TRANSACTIONAL_ID as TransactionalId."""
    return "".join(word.capitalize() for word in name.split("_"))
