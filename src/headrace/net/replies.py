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
Answer = Bytes | Parts | Close | None


class RequestRecord(Protocol):
    """The dispatcher's record of the request that a `Pending` answers."""

    def settled(self) -> None:
        """The request is answered, or its client is gone."""

    def explain(self, error: Exception) -> Answer:
        """The answer to a request that failed."""


class Pending:
    """An answer that comes later. Callers give it by a call (`give`), or a coroutine brings it (`Pending.of`).

    A connection serves nothing behind a pending answer until it is there, as in Kafka, so that a client sees its
    requests take effect in the order it sent them. `overlapping` lifts that for Produce: the batches are in the log
    already, only the acknowledgement is outstanding, and the next batch need not wait for it.

    Giving costs no task, no coroutine and no future: a commit and a long poll come with every replicated write. The
    connection sends everything that was given in one turn of the loop at the end of that turn, by one system call.
    `at_once` is for givers that have nothing left to do in their turn: the answer leaves now. `dropped` is called if
    the client goes before the answer comes; a coroutine runs to its end all the same.
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
        """The answer of a coroutine, which runs in a task of its own."""
        pending = cls(overlapping=overlapping, at_once=True)
        pending._task = asyncio.get_running_loop().create_task(pending._run(answer))
        return pending

    @classmethod
    def settled(cls, answer: Answer) -> Pending:
        """An answer that is there already, but has to wait behind others."""
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
        except Exception as error:  # the client gets an answer or a closed connection, whatever went wrong
            self.fail(error)
        else:
            self.give(answer)
        finally:
            self._task = self.keeper = None

    def give(self, answer: Answer) -> None:
        """Only the first answer counts, and none after the client is gone."""
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
        if self.keeper is None:
            log.error("a request failed; its connection is closed", exc_info=error)
            self.give(CLOSE)
        else:
            self.give(self.keeper.explain(error))

    def taken_by(self, take: Callable[[Pending], None]) -> None:
        """Calls `take` with this object once the answer is given. For one that is not `ready` yet."""
        self._take = take

    def drop(self) -> None:
        """The client is gone: the answer is not wanted any more."""
        if self.ready:
            return
        self.ready = True
        keeper, dropped = self.keeper, self._dropped
        if self._task is None:
            self._forget()
        else:
            # The coroutine runs to its end, and the keeper says what it means if it fails.
            self._dropped = self._take = None
        if dropped is not None:
            dropped()
        if keeper is not None:
            keeper.settled()

    def _forget(self) -> None:
        """The giver and this object refer to each other; without this, only the garbage collector would free them."""
        self.keeper = self._dropped = self._take = None

    def __await__(self) -> Generator[asyncio.Future[None], None, Answer]:
        if not self.ready:
            given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.taken_by(lambda _: None if given.done() else given.set_result(None))
            try:
                yield from given
            except BaseException:
                # Whatever ends the wait, a cancellation too: the giver must not keep an answer without a taker.
                self.drop()
                raise
        if self.error is not None:
            raise self.error
        return self.answer


Reply = Answer | Pending
