"""kazoo's log messages while ZooKeeper does not answer."""

from __future__ import annotations

import logging

import pytest

from headrace.coordination.kazoo_log import AGAIN_AFTER_S, RateLimitedLog, rate_limited_logger


def test_the_first_reason_is_shown_then_one_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    sparing = RateLimitedLog(lambda: now_s)
    logger = rate_limited_logger(sparing)
    parent = logging.getLogger("headrace")
    before = parent.propagate, parent.level
    parent.propagate = True
    parent.setLevel(logging.INFO)
    try:
        for _ in range(2 * int(AGAIN_AFTER_S)):
            logger.info("Connecting to %s", "127.0.0.1:2181")
            logger.warning("Connection dropped: %s", "refused")
            now_s += 1
        assert [record.getMessage() for record in caplog.records] == [
            "Connection dropped: refused",
            f"Connection dropped: refused ({int(AGAIN_AFTER_S) - 1} lines like it were passed over)",
        ]
        caplog.clear()
        sparing.connected()
        logger.warning("Connection dropped: %s", "reset")
        logger.error("a bug")
        assert [record.getMessage() for record in caplog.records] == ["Connection dropped: reset", "a bug"]
        caplog.clear()
        sparing.silence()
        logger.error("too late")
        assert not caplog.records
    finally:
        parent.propagate, _ = before
        parent.setLevel(before[1])
        logger.removeFilter(sparing)
