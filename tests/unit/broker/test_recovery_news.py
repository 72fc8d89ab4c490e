"""How far the check of many logs is, is told now and then."""

from __future__ import annotations

import pytest

from headrace.broker.recovery_news import RecoveryNews
from headrace.kernel.ids import TopicPartition
from headrace.storage.recovery import Progress


def test_a_long_check_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "headrace.broker")
    now = [0.0]
    news = RecoveryNews(lambda: now[0])
    for index in range(1000):
        now[0] += 0.02
        news.progressed(Progress(TopicPartition("orders", index), 1, 1, logs=1001))
    now[0] += 5
    news.progressed(Progress(TopicPartition("large", 0), 3, 90, logs=1001))
    assert [record.getMessage() for record in caplog.records] == [
        "checking 1001 logs after an unclean stop",
        "251 of 1001 logs are checked",
        "501 of 1001 logs are checked",
        "751 of 1001 logs are checked",
        "1000 of 1001 logs are checked; large-0: segment 3 of 90",
    ]
