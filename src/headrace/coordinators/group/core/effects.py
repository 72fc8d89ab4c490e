"""Collects the results of an operation on a group: records, answers, timers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from headrace.coordinators.codec.rebalance_causes import RebalanceCause, headers_of
from headrace.coordinators.runtime.result import Answer, Result, Timer, Token
from headrace.kernel.errors import ErrorCode
from headrace.records.builder import Record


class Effects:
    __slots__ = ("answers", "records", "then", "timers")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.answers: list[Answer] = []
        self.timers: list[Timer] = []
        self.then: Callable[[ErrorCode, int], Result | None] | None = None

    def write(self, key: bytes, value: bytes | None, causes: Sequence[RebalanceCause] = ()) -> None:
        """A record; no value is a tombstone. `causes` become its headers."""
        self.records.append(Record(key, value, headers_of(causes) if causes else ()))

    def answer(self, token: Token, reply: object) -> None:
        self.answers.append((token, reply))

    def arm(self, key: Hashable, delay_ms: int, fire: Callable[[int], Result]) -> None:
        """A timer that waits for members."""
        self.timers.append(Timer(key, delay_ms, fire, awaits_client=True))

    def disarm(self, key: Hashable) -> None:
        self.timers.append(Timer(key))

    def result(self, reply: object = None, *, replay: bool = True, atomic: bool = True) -> Result:
        return Result(self.records, reply, self.answers, self.timers, self.then, None, replay, atomic)
