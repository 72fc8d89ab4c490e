"""Log levels of this broker as a configuration (KIP-412): read and changed on the broker itself, gone with its
process.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from headrace.controller.core.config_changes import KeyChange, Operation
from headrace.kernel.errors import ErrorCode, Refused

ROOT: Final = "root"
# Kafka's level words; Python has no TRACE, and nothing below DEBUG is logged anyway.
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_WORDS: Final = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}


def levels() -> dict[str, str]:
    """Every logger of this process that belongs to Headrace, and the root, with its effective level."""
    names = [ROOT, *sorted(n for n in logging.root.manager.loggerDict if n.split(".")[0] == "headrace")]
    return {name: _word(_logger(name).getEffectiveLevel()) for name in names}


def check(changes: Sequence[KeyChange]) -> None:
    known = levels()
    for change in changes:
        if change.name not in known:
            raise Refused(ErrorCode.invalid_config, f"Logger {change.name} does not exist!")
        if change.operation == Operation.SET:
            if (change.value or "").upper() not in _LEVELS:
                legal = ", ".join(_LEVELS)
                why = (
                    f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                )
                raise Refused(ErrorCode.invalid_config, f"{why}Valid log levels are {legal}")
        elif change.operation == Operation.DELETE:
            if change.name == ROOT:
                raise Refused(ErrorCode.invalid_request, f"Removing the log level of the {ROOT} logger is not allowed")
        else:
            verb = Operation(change.operation).name if change.operation in tuple(Operation) else str(change.operation)
            raise Refused(ErrorCode.invalid_request, f"{verb} operation is not allowed for the BROKER_LOGGER resource")


def apply(changes: Sequence[KeyChange]) -> None:
    for change in changes:
        level = _LEVELS[(change.value or "").upper()] if change.operation == Operation.SET else logging.NOTSET
        _logger(change.name).setLevel(level)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _word(level: int) -> str:
    return _WORDS.get(level, "DEBUG" if level < logging.DEBUG else "INFO")
