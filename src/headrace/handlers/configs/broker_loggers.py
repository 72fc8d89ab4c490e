"""Log levels of this broker as a configuration (KIP-412): kept in memory and lost when the broker stops."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.controller.core.config_changes import KeyChange, Operation
from headrace.kernel.errors import ErrorCode, Refused
from headrace.telemetry import Loggers


def levels() -> dict[str, str]:
    """Every logger of Headrace, and the root logger, with its effective level."""
    return Loggers().levels()


def check(changes: Sequence[KeyChange]) -> None:
    Loggers().validate(_levels(changes))


def apply(changes: Sequence[KeyChange]) -> None:
    Loggers().alter(_levels(changes))


def _levels(changes: Sequence[KeyChange]) -> dict[str, str | None]:
    wanted: dict[str, str | None] = {}
    for change in changes:
        if change.operation == Operation.SET:
            if change.value is None:
                raise Refused(ErrorCode.invalid_request, f"Null value not supported for {change.name}")
            wanted[change.name] = change.value
        elif change.operation == Operation.DELETE:
            wanted[change.name] = None
        else:
            verb = Operation(change.operation).name if change.operation in tuple(Operation) else str(change.operation)
            raise Refused(ErrorCode.invalid_request, f"{verb} operation is not allowed for the BROKER_LOGGER resource")
    return wanted
