"""The format of log lines, and levels that change while the broker runs."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import pytest

from headrace.kernel.errors import ErrorCode, Refused
from headrace.telemetry import Loggers, set_up_logging


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The broker's log; restores the logging configuration afterwards."""
    tree, root, authorizer = (logging.getLogger(name) for name in ("headrace", "", "kafka.authorizer.logger"))
    of_authorizer = (authorizer.level, list(authorizer.handlers), authorizer.propagate)
    before = (tree.level, list(tree.handlers), tree.propagate, root.level, list(root.handlers))
    stream = io.StringIO()
    set_up_logging("INFO", stream)
    yield stream
    tree.level, tree.handlers, tree.propagate, root.level, root.handlers = before
    logging.getLogger("headrace.test").setLevel(logging.NOTSET)
    tree.setLevel(before[0])
    authorizer.setLevel(of_authorizer[0])
    _, authorizer.handlers, authorizer.propagate = of_authorizer


def test_authorizer_denials_are_visible_by_default_and_have_their_own_level(lines: io.StringIO) -> None:
    logging.getLogger("kafka.authorizer.logger").info("Principal = User:x is Denied")
    logging.getLogger("kafka.authorizer.logger").debug("Principal = User:x is Allowed")
    assert "INFO  kafka.authorizer.logger  Principal = User:x is Denied" in lines.getvalue()
    assert "Allowed" not in lines.getvalue()
    Loggers().alter({"kafka.authorizer.logger": "DEBUG"})
    logging.getLogger("kafka.authorizer.logger").debug("Principal = User:x is Allowed")
    assert "Allowed" in lines.getvalue()


def test_log_line_has_time_severity_logger_message_and_values(lines: io.StringIO) -> None:
    logging.getLogger("headrace.replication").info("now leading %s", "orders-0", extra={"epoch": 4, "isr": "1, 2"})
    assert re.fullmatch(
        r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO  replication  now leading orders-0  epoch=4 isr="1, 2"\n',
        lines.getvalue(),
    )


def test_a_name_with_a_line_break_cannot_forge_a_line(lines: io.StringIO) -> None:
    logging.getLogger("headrace.net").warning("client %s", "x\n2026 INFO forged")
    assert lines.getvalue().count("\n") == 1


def test_an_exception_follows_its_line(lines: io.StringIO) -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        logging.getLogger("headrace.net").exception("it failed")
    assert "ERROR net  it failed\nTraceback" in lines.getvalue()
    assert "RuntimeError: boom" in lines.getvalue()


def test_libraries_log_from_warning_up(lines: io.StringIO) -> None:
    logging.getLogger("kazoo.client").info("chatter")
    logging.getLogger("kazoo.client").warning("trouble")
    assert "chatter" not in lines.getvalue()
    assert "WARN  kazoo.client  trouble" in lines.getvalue()


def test_setting_up_twice_writes_each_line_once(lines: io.StringIO) -> None:
    set_up_logging("INFO", lines)
    logging.getLogger("headrace.net").info("once")
    assert lines.getvalue().count("once") == 1


def test_levels_are_shown_set_and_reset_to_the_parents(lines: io.StringIO) -> None:
    logger = logging.getLogger("headrace.test")
    loggers = Loggers()
    assert loggers.levels()["headrace.test"] == "INFO"
    loggers.alter({"headrace.test": "debug"})
    logger.debug("now heard")
    assert "DEBUG test  now heard" in lines.getvalue()
    assert loggers.levels()["headrace.test"] == "DEBUG"
    loggers.alter({"headrace.test": None})
    assert loggers.levels()["headrace.test"] == "INFO"
    loggers.alter({"root": "WARN"})
    assert loggers.levels()["headrace.test"] == loggers.levels()["root"] == "WARN"


def test_wrong_loggers_and_levels_are_refused_and_change_nothing(lines: io.StringIO) -> None:
    logging.getLogger("headrace.test")
    loggers = Loggers()
    with pytest.raises(Refused, match=r"Logger headrace\.nowhere does not exist!"):
        loggers.alter({"headrace.test": "DEBUG", "headrace.nowhere": "DEBUG"})
    with pytest.raises(Refused, match=r"LOUD as it is not a supported log level\. Valid log levels are FATAL, ERROR"):
        loggers.alter({"headrace.test": "LOUD"})
    with pytest.raises(Refused) as refused:
        loggers.alter({"root": None})
    assert refused.value.code == ErrorCode.invalid_request
    assert loggers.levels()["headrace.test"] == "INFO"
