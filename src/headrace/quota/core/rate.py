"""A rate over the last `samples` windows, as Kafka measures it, and the throttle time.

Use is recorded in samples; a sample lasts `window_ms` from its first use. It counts until `samples` windows have passed
since its last use. The rate is the sum divided by the time since the oldest sample began, but at least `samples - 1`
whole windows: so a first burst after a pause counts over the whole window and not over one second.

The throttle time is the time after which the rate would be at the limit:

    wait = (rate - limit) / limit x elapsed

Mirrors Kafka's Rate, SampledStat and QuotaUtils.throttleTime.
"""

from __future__ import annotations

from collections import deque


class SampledRate:
    __slots__ = ("_samples", "count", "last_used_ms", "window_ms")

    def __init__(self, count: int, window_ms: int) -> None:
        assert count >= 1
        assert window_ms >= 1
        self.count = count
        self.window_ms = window_ms
        self.last_used_ms = 0
        self._samples: deque[list[float]] = deque()  # [began at, last used at, amount]

    def record(self, amount: float, now_ms: int) -> None:
        self.last_used_ms = now_ms
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self.window_ms:
            sample = samples[-1]
            sample[1] = now_ms
            sample[2] += amount
        else:
            samples.append([now_ms, now_ms, amount])
            if len(samples) > self.count + 1:
                samples.popleft()

    def take_back(self, amount: float) -> None:
        """Undoes the latest `record` of this amount, because its response was not sent."""
        if self._samples:
            self._samples[-1][2] -= amount

    def per_second(self, now_ms: int) -> float:
        elapsed_ms = self.elapsed_ms(now_ms)
        return sum(sample[2] for sample in self._samples) * 1000 / elapsed_ms

    def elapsed_ms(self, now_ms: int) -> int:
        samples = self._samples
        horizon = self.count * self.window_ms
        while samples and now_ms - samples[0][1] >= horizon:
            samples.popleft()
        elapsed = int(now_ms - samples[0][0]) if samples else 0
        whole = elapsed // self.window_ms
        if whole < self.count - 1:
            elapsed += (self.count - 1 - whole) * self.window_ms
        return max(elapsed, 1)

    def wait_ms(self, limit_per_second: float, now_ms: int) -> int:
        """The time until the rate is at the limit; 0 if it is not above."""
        rate = self.per_second(now_ms)
        if rate <= limit_per_second:
            return 0
        return round((rate - limit_per_second) / limit_per_second * self.elapsed_ms(now_ms))
