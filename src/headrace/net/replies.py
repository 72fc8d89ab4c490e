"""What serving a frame may come back as.

bytes, bytearray          the whole answer, length prefix included
list of parts             the same in pieces; a piece may be a FileSlice, which leaves by sendfile
None                      no answer (Produce with acks=0)
Later                     an answer that a coroutine brings; it holds its place in the order of answers
Promise                   an answer that somebody gives by a call; it holds its place too
CLOSE                     no answer, and the connection ends
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from enum import Enum
from typing import Any, Final, Protocol

from headrace.kernel.dataclass import dataclass


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class FileSlice(Protocol):
    """Bytes of a file that go out unseen. Holding `file` keeps its descriptor open."""

    @property
    def file(self) -> HasFileno: ...
    @property
    def position(self) -> int: ...
    @property
    def length(self) -> int: ...


class Close(Enum):
    CLOSE = "close"


CLOSE: Final = Close.CLOSE

Bytes = bytes | bytearray | memoryview
Parts = list[Bytes | FileSlice]


@dataclass(slots=True)
class Later:
    """An answer to wait for.

    A connection serves nothing behind it until it is there, as in Kafka, so that a client sees its requests take effect
    in the order it sent them. `overlapping` lifts that for Produce: the batches are in the log already, only the
    acknowledgement is outstanding, and the next batch need not wait for it. Once begun it runs to its end, also when
    the client goes.
    """

    answer: Coroutine[Any, Any, Bytes | Parts | Close | None]
    overlapping: bool = False


class Place:
    """An awaited answer's place in the order of answers."""

    __slots__ = ("answer", "ready")

    def __init__(self) -> None:
        self.ready = False
        self.answer: Bytes | Parts | Close | None = None


class Keeper(Protocol):
    """Who served the request that a promise answers."""

    def settled(self) -> None:
        """It is answered, or nobody waits for it any more."""

    def explain(self, error: Exception) -> Bytes | Close:
        """The answer to a request that failed."""


class Promise(Place):
    """An answer that somebody gives by a call, as soon as it is known: no task, no coroutine, no future.

    It serves the two waits that come with every replicated write, a commit and a long poll; `overlapping` is as in
    `Later`. It may be given in the middle of anything: the connection sends what was given in one turn of the loop at
    the end of that turn, by one system call. `at_once` is for givers that have nothing left to do: it leaves now.
    `dropped` is called instead when the client goes before the answer comes.
    """

    __slots__ = ("_dropped", "_take", "at_once", "error", "keeper", "overlapping")

    def __init__(
        self, *, overlapping: bool = False, at_once: bool = False, dropped: Callable[[], None] | None = None
    ) -> None:
        self.ready = False
        self.answer = None
        self.overlapping = overlapping
        self.at_once = at_once
        self.keeper: Keeper | None = None
        self.error: Exception | None = None
        self._dropped = dropped
        self._take: Callable[[Promise], None] | None = None

    def give(self, answer: Bytes | Parts | Close) -> None:
        """What is given after the first answer, or after the client went, goes nowhere."""
        if self.ready:
            return
        self.ready = True
        self.answer = answer
        keeper, take = self.keeper, self._take
        self._forget()
        if keeper is not None:
            keeper.settled()
        if take is not None:
            take(self)

    def fail(self, error: Exception) -> None:
        """Answers with what this error means to the client."""
        self.error = error
        self.give(CLOSE if self.keeper is None else self.keeper.explain(error))

    def taken_by(self, take: Callable[[Promise], None]) -> None:
        """Called with this promise once it is kept; not for one that is `ready` already."""
        self._take = take

    def drop(self) -> None:
        """Nobody waits any more."""
        if self.ready:
            return
        self.ready = True
        keeper, dropped = self.keeper, self._dropped
        self._forget()
        if dropped is not None:
            dropped()
        if keeper is not None:
            keeper.settled()

    def _forget(self) -> None:
        """Whoever made this promise holds it, and is held by it: let go, or only the collector would part them."""
        self.keeper = self._dropped = self._take = None

    def __await__(self) -> Generator[Any, None, Bytes | Parts | Close | None]:
        if not self.ready:
            kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.taken_by(lambda _: None if kept.done() else kept.set_result(None))
            try:
                yield from kept
            except BaseException:
                self.drop()
                raise
        if self.error is not None:
            raise self.error
        return self.answer


Reply = bytes | bytearray | Parts | Later | Promise | Close | None
