"""Result of an operation on a coordinator's state: records, a reply, replies to waiting callers, timers.

An operation is a function `(shard, now_ms) -> Result`. It decides and does not change durable state: the runtime writes
the records as one batch and replays them, and only that replay changes the state. The runtime sends the reply when the
records are committed.

    reply     for the caller; DEFERRED when a later operation answers it (a join that waits for other members)
    answers   (token, reply) for waiting callers; sent when the records are committed
    timers    set or cancelled at once, by key; a timer that fires is an operation like any other
    then      continuation after the records are committed (error none) or lost (error set); returns a Result
    producer  (id, epoch) when the records belong to a transaction: they get a batch of their own
    replay    False when the operation has already changed the memory: a classic group is in memory between two
              generations, and its record is a snapshot for the next coordinator
    atomic    False when the records need not be written together (tombstones of expired state): more than fit in one
              batch are written in several

Pure: no event loop here. A token is an opaque value of the caller (a future in the broker, a number in tests).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeAlias

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.records.builder import Record

Token: TypeAlias = object
Answer: TypeAlias = tuple[Token, object]


class _Deferred:
    def __repr__(self) -> str:
        return "DEFERRED"


DEFERRED: Final = _Deferred()


@dataclass(slots=True, frozen=True)
class Timer:
    """Run `fire` in `delay_ms`; a second timer of the same key replaces the first. `fire=None` cancels.

    If its records cannot be written, it fires again after `retry_ms`: a dead member must be removed once the replicas
    are back. `awaits_client`: it fires because a client was silent for `delay_ms`. This time starts anew when clients
    can reach the coordinator again.
    """

    key: Hashable
    delay_ms: int = 0
    fire: Callable[[int], Result] | None = None
    retry_ms: int = 500
    awaits_client: bool = False


@dataclass(slots=True)
class Result:
    records: Sequence[Record] = ()
    reply: object = None
    answers: Sequence[Answer] = ()
    timers: Sequence[Timer] = ()
    then: Callable[[ErrorCode, int], Result | None] | None = None
    producer: tuple[int, int] | None = None
    replay: bool = True
    atomic: bool = True


NOTHING: Final = Result()
