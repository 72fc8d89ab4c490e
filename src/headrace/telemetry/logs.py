"""The broker's application log: lines for people and programs, and levels that can change while the broker runs.

    2026-11-16T00:12:31.123Z INFO  replication  now leading orders-0  epoch=4 isr=1,2

Time, severity, the logger without `headrace.`, the message, then the values of `extra={…}`. All loggers are
`headrace.*`, except the authorizer's, which has Kafka's name. DescribeConfigs and IncrementalAlterConfigs of
BROKER_LOGGER resources show and set their levels with Kafka's names (TRACE … FATAL, `root` for the whole tree).
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import IO, Final

from headrace.kernel.errors import ErrorCode, Refused

TREE: Final = "headrace"
# The authorizer's decisions. Denials are visible unless this logger's own level is raised.
AUTHORIZER: Final = "kafka.authorizer.logger"
ROOT: Final = "root"
TRACE: Final = 5
LEVELS: Final[Mapping[str, int]] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
_WORDS: Final = {number: word for word, number in LEVELS.items()}
_ALSO: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        seconds, millis = int(record.created), int(record.msecs)
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        name = record.name.removeprefix(f"{TREE}.")
        line = f"{when}.{millis:03d}Z {_word(record.levelno):<5} {name}  {_one_line(record.getMessage())}"
        extra = [f"{key}={_value(value)}" for key, value in record.__dict__.items() if key not in _STANDARD]
        if extra:
            line += "  " + " ".join(extra)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _word(number: int) -> str:
    return _WORDS.get(number) or max((n, w) for n, w in _WORDS.items() if n <= max(number, TRACE))[1]


def _one_line(text: str) -> str:
    """Escapes line breaks: names in a message come from clients and must not forge another log line."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _value(value: object) -> str:
    text = _one_line(str(value))
    return f'"{text}"' if " " in text or not text else text


def set_up_logging(level: str = "INFO", stream: IO[str] | None = None) -> None:
    """Sets one handler for `headrace.*`, and for libraries from WARNING up. Another call replaces the handler."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.addLevelName(TRACE, "TRACE")
    for name, threshold in (("", logging.WARNING), (TREE, _number(ROOT, level)), (AUTHORIZER, logging.INFO)):
        logger = logging.getLogger(name)
        for old in [known for known in logger.handlers if isinstance(known.formatter, LineFormatter)]:
            logger.removeHandler(old)
        logger.addHandler(handler)
        logger.setLevel(threshold)
    for name in (TREE, AUTHORIZER):
        logging.getLogger(name).propagate = False


def _number(logger: str, level: str) -> int:
    word = _ALSO.get(level.strip().upper(), level.strip().upper())
    if word not in LEVELS:
        raise Refused(
            ErrorCode.invalid_config,
            f"Cannot set the log level of {logger} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}",
        )
    return LEVELS[word]


class Loggers:
    """BROKER_LOGGER resources: the level of every logger, by name. Error messages equal Kafka's."""

    def levels(self) -> dict[str, str]:
        found = {ROOT: _word(logging.getLogger(TREE).getEffectiveLevel())}
        for name in sorted(logging.root.manager.loggerDict):
            if name.startswith(f"{TREE}.") or name == AUTHORIZER:
                found[name] = _word(logging.getLogger(name).getEffectiveLevel())
        return found

    def validate(self, changes: Mapping[str, str | None]) -> None:
        """Checks levels to set (None: inherit from the parent) without changing any. Raises for the first wrong one."""
        known = self.levels()
        for name, level in changes.items():
            if name not in known:
                raise Refused(ErrorCode.invalid_config, f"Logger {name} does not exist!")
            if level is not None:
                _number(name, level)
            elif name == ROOT:
                raise Refused(ErrorCode.invalid_request, f"Removing the log level of the {ROOT} logger is not allowed")

    def alter(self, changes: Mapping[str, str | None]) -> None:
        self.validate(changes)
        for name, level in changes.items():
            logger = logging.getLogger(TREE if name == ROOT else name)
            logger.setLevel(logging.NOTSET if level is None else _number(name, level))
