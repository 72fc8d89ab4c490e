"""How often a login may fail. Pure: time is an argument.

Failures count for the address and for the name of the user: one address cannot try many names, and many addresses
cannot try one name. A try counts as failed from its start, so tries at the same time do not pass the limit together;
it is taken back if it did not fail. A success forgives the name. Old failures are forgotten, so the memory is bounded.
"""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_S: Final = 300.0
MOST_PER_NAME: Final = 5
MOST_PER_ADDRESS: Final = 20
_MOST_KEYS: Final = 10_000


class Attempts:
    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], deque[float]] = {}

    def wait_s(self, address: str, name: str, now_s: float) -> float:
        """Seconds until the next try is allowed; 0 if it is allowed now."""
        return max(
            self._left(("address", address), MOST_PER_ADDRESS, now_s), self._left(("name", name), MOST_PER_NAME, now_s)
        )

    def began(self, address: str, name: str, now_s: float) -> None:
        """Counts as failed until it is taken back."""
        for key, most in ((("address", address), MOST_PER_ADDRESS), (("name", name), MOST_PER_NAME)):
            self._failures.setdefault(key, deque(maxlen=most)).append(now_s)
        if len(self._failures) > _MOST_KEYS:
            old = [key for key, times in self._failures.items() if now_s - times[-1] > WINDOW_S]
            for key in old or list(self._failures)[: _MOST_KEYS // 10]:
                del self._failures[key]

    def taken_back(self, address: str, name: str, began_s: float) -> None:
        for key in (("address", address), ("name", name)):
            times = self._failures.get(key)
            if times is not None and began_s in times:
                times.remove(began_s)
                if not times:
                    del self._failures[key]

    def succeeded(self, name: str) -> None:
        self._failures.pop(("name", name), None)

    def _left(self, key: tuple[str, str], most: int, now_s: float) -> float:
        times = self._failures.get(key)
        if times is None or len(times) < most:
            return 0.0
        return max(0.0, times[0] + WINDOW_S - now_s)
