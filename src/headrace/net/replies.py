"""Result of serving a frame: an answer now, or one `Pending`.

bytes, bytearray, memoryview   the whole answer, length prefix included
list of parts                  the same in pieces; a piece may be a FileSlice, which is sent by sendfile
None                           no answer (Produce with acks=0)
CLOSE                          no answer, and the connection ends
Pending                        an answer that comes later and keeps its place in the order of answers
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from enum import Enum
from typing import Final, Protocol

log = logging.getLogger("headrace.net")


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class FileSlice(Protocol):
    """Bytes of a file that are sent without reading them. Holding `file` keeps its descriptor open."""

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
Answer = Bytes | Parts | Close | None


class RequestRecord(Protocol):
    """The dispatcher's record of the request that a `Pending` answers."""

    def settled(self) -> None:
        """The request is answered, or its client is gone."""

    def explain(self, error: Exception) -> Answer:
        """The error answer of a failed request."""


class Pending:
    """An answer that comes later, by a call (`give`) or from a coroutine (`Pending.of`).

    A connection serves no further request until a pending answer is given, as in Kafka, so that the requests of a
    client take effect in order. `overlapping` is the exception for Produce: the batches are in the log already, only
    the acknowledgement is outstanding, and the next batch need not wait for it.

    `give` needs no task, coroutine or future, because every replicated write has a commit and a long poll. The
    connection sends all answers of one turn of the event loop at its end, by one system call. With `at_once` it sends
    the answer now; use it if the caller has nothing left to do in this turn. `dropped` is called if the client
    disconnects before the answer; a coroutine still runs to its end.
    """

    __slots__ = ("_dropped", "_take", "_task", "answer", "at_once", "error", "keeper", "overlapping", "ready")

    def __init__(
        self, *, overlapping: bool = False, at_once: bool = False, dropped: Callable[[], None] | None = None
    ) -> None:
        self.ready = False
        self.answer: Answer = None
        self.overlapping = overlapping
        self.at_once = at_once
        self.keeper: RequestRecord | None = None
        self.error: Exception | None = None
        self._dropped = dropped
        self._take: Callable[[Pending], None] | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, answer: Coroutine[None, None, Answer], *, overlapping: bool = False) -> Pending:
        """The answer of a coroutine, which runs in its own task."""
        pending = cls(overlapping=overlapping, at_once=True)
        pending._task = asyncio.get_running_loop().create_task(pending._run(answer))
        return pending

    @classmethod
    def settled(cls, answer: Answer) -> Pending:
        """An answer that is complete, but has to wait behind others."""
        pending = cls()
        pending.ready = True
        pending.answer = answer
        return pending

    async def _run(self, coroutine: Coroutine[None, None, Answer]) -> None:
        try:
            answer = await coroutine
        except asyncio.CancelledError:
            self.give(CLOSE)
            raise
        except Exception as error:  # after any failure the client gets an answer or a closed connection
            self.fail(error)
        else:
            self.give(answer)
        finally:
            self._task = self.keeper = None

    def give(self, answer: Answer) -> None:
        """Only the first answer counts. Ignored after the client has disconnected."""
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
        """Answers with the error code of this exception."""
        self.error = error
        if self.keeper is None:
            log.error("a request failed; its connection is closed", exc_info=error)
            self.give(CLOSE)
        else:
            self.give(self.keeper.explain(error))

    def taken_by(self, take: Callable[[Pending], None]) -> None:
        """Calls `take` with this object once the answer is given. Only if it is not `ready` yet."""
        self._take = take

    def drop(self) -> None:
        """The client has disconnected: the answer is dropped."""
        if self.ready:
            return
        self.ready = True
        keeper, dropped = self.keeper, self._dropped
        if self._task is None:
            self._forget()
        else:
            # The coroutine runs to its end, and the keeper logs its failure.
            self._dropped = self._take = None
        if dropped is not None:
            dropped()
        if keeper is not None:
            keeper.settled()

    def _forget(self) -> None:
        """Breaks the reference cycle with the caller, so that no garbage collection is needed."""
        self.keeper = self._dropped = self._take = None

    def __await__(self) -> Generator[asyncio.Future[None], None, Answer]:
        if not self.ready:
            given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.taken_by(lambda _: None if given.done() else given.set_result(None))
            try:
                yield from given
            except BaseException:
                # After any end of the wait, also a cancellation: the answer has no receiver any more.
                self.drop()
                raise
        if self.error is not None:
            raise self.error
        return self.answer


Reply = Answer | Pending
