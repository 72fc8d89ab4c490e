"""Rates and throttle times equal Kafka's, to the millisecond."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.quota.core.rate import SampledRate
from headrace.quota.core.token_bucket import TokenBucket
from tests.reference import kafka as reference


def test_client_at_its_limit_never_waits_and_one_at_twice_the_limit_is_throttled_to_it() -> None:
    rate = SampledRate(11, 1000)
    for second in range(30):
        rate.record(1000, second * 1000)
        assert rate.wait_ms(1100, second * 1000) == 0
    greedy = SampledRate(11, 1000)
    now, sent = 0, 0
    while now < 60_000:
        greedy.record(500, now)
        sent += 500
        now += 100 + greedy.wait_ms(1000, now)
    assert 0.9 <= sent / 60_000 <= 1.3  # bytes per ms, at a limit of 1


def test_a_first_burst_is_spread_over_the_window() -> None:
    rate = SampledRate(11, 1000)
    rate.record(10_000, 5_000)
    assert rate.per_second(5_000) == 1000  # over the ten whole windows that could have been used
    assert rate.wait_ms(1000, 5_000) == 0
    rate.record(5_000, 5_000)
    assert rate.wait_ms(1000, 5_000) == 5_000


def test_use_older_than_the_window_does_not_count() -> None:
    rate = SampledRate(11, 1000)
    rate.record(50_000, 0)
    assert rate.wait_ms(1000, 0) == 40_000
    assert rate.per_second(10_999) > 0
    assert rate.per_second(11_000) == 0


def test_use_that_was_taken_back_does_not_count() -> None:
    rate = SampledRate(11, 1000)
    rate.record(50_000, 0)
    rate.take_back(50_000)
    assert rate.wait_ms(1000, 0) == 0


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 10**7)), max_size=60), st.integers(1, 10**6))
def test_after_the_window_and_the_throttle_time_the_rate_is_within_the_limit(
    uses: list[tuple[int, int]], limit: int
) -> None:
    rate = SampledRate(11, 1000)
    now = 0
    for pause, amount in uses:
        now += pause
        rate.record(amount, now)
        wait = rate.wait_ms(limit, now)
        assert wait >= 0
        assert rate.wait_ms(limit, now + max(wait, 11_000)) == 0


@pytest.mark.needs("kafka")
def test_kafka_measures_the_same_rate_and_window(tmp_path: Path) -> None:
    source = tmp_path / "Rates.java"
    source.write_text(
        """
        import java.util.Scanner;
        import java.util.concurrent.TimeUnit;
        import org.apache.kafka.common.metrics.MetricConfig;
        import org.apache.kafka.common.metrics.stats.*;
        public class Rates {
            public static void main(String[] arguments) {
                var config = new MetricConfig().samples(11).timeWindow(1, TimeUnit.SECONDS);
                var rate = new Rate(TimeUnit.SECONDS, new WindowedSum());
                var in = new Scanner(System.in);
                while (in.hasNextLong()) {
                    long now = in.nextLong();
                    rate.record(config, in.nextLong(), now);
                    System.out.println(rate.measure(config, now) + " " + rate.windowSize(config, now));
                }
            }
        }
        """
    )
    chance = random.Random(20)
    now, uses = 1_000_000, []
    for _ in range(1000):
        now += chance.randrange(15_000) if chance.random() < 0.1 else chance.randrange(700)
        uses.append((now, chance.randrange(100_000)))
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{reference.fetch()}/*", str(source)],
        input="\n".join(f"{when} {amount}" for when, amount in uses),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    ours = SampledRate(11, 1000)
    for (when, amount), line in zip(uses, done.stdout.splitlines(), strict=True):
        ours.record(amount, when)
        per_second, window = line.split()
        assert ours.per_second(when) == pytest.approx(float(per_second))
        assert ours.elapsed_ms(when) == int(window)


def test_bucket_accepts_one_burst_and_then_waits_until_it_refills() -> None:
    bucket = TokenBucket(burst_seconds=11)
    bucket.take(15, 1, 0)  # 11 in the bucket, one change a second
    assert bucket.wait_ms(1, 0) == 4000
    assert bucket.wait_ms(1, 3_999) == 1
    assert bucket.wait_ms(1, 4_000) == 0
    assert bucket.tokens(1, 10**9) == 11
