from __future__ import annotations

from headrace.console.cluster.samples import Samples
from headrace.kernel.ids import TopicPartition


def test_rates_come_from_the_last_half_minute() -> None:
    samples = Samples()
    assert samples.rate_of("orders") is None
    for second, end in ((0, 0), (10, 1000), (40, 1000), (50, 1300)):
        samples.add_ends(second, {TopicPartition("orders", 0): end, TopicPartition("orders", 1): 0})
    assert samples.rate_of("orders") == 300 / 40
    assert samples.written["orders"].rates() == ([10, 40, 50], [100.0, 0.0, 30.0])


def test_a_topic_that_is_deleted_or_made_again_has_no_negative_rate() -> None:
    samples = Samples()
    samples.add_ends(0, {TopicPartition("orders", 0): 500})
    samples.add_ends(5, {TopicPartition("orders", 0): 3})
    assert samples.rate_of("orders") == 0
    samples.add_ends(10, {})
    assert samples.rate_of("orders") is None


def test_an_unknown_lag_is_not_zero() -> None:
    samples = Samples()
    samples.add_lags(0, {"a": 4, "b": None})
    assert samples.last_lag("a") == 4 and samples.last_lag("b") is None
