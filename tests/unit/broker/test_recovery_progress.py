"""The recovery of many logs reports its progress."""

from __future__ import annotations

import pytest

from headrace.broker.recovery_progress import RecoveryProgress
from headrace.kernel.ids import TopicPartition
from headrace.storage.recovery.recovery import Progress


def test_a_long_recovery_logs_its_progress(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "headrace.broker")
    now = [0.0]
    news = RecoveryProgress(lambda: now[0])
    for index in range(40):
        now[0] += 0.5
        news.progressed(Progress(TopicPartition("orders", index), 1, 1, logs=41))
    now[0] += 5
    news.progressed(Progress(TopicPartition("large", 0), 3, 90, logs=41))
    assert [record.getMessage() for record in caplog.records] == [
        "checking 41 logs after an unclean stop",
        "11 of 41 logs are checked",
        "21 of 41 logs are checked",
        "31 of 41 logs are checked",
        "40 of 41 logs are checked; large-0: segment 3 of 90",
    ]
