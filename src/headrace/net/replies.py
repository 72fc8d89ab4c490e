"""What serving a frame may come back as.

bytes, bytearray          the whole answer, length prefix included
list of parts             the same in pieces; a piece may be a FileSlice, which leaves by sendfile
None                      no answer (Produce with acks=0)
Later                     an answer that has to be waited for; it holds its place in the order of answers
CLOSE                     no answer, and the connection ends
"""

from __future__ import annotations

from collections.abc import Coroutine
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
    acknowledgement is outstanding, and the next batch need not wait for it.
    """

    answer: Coroutine[Any, Any, Bytes | Parts | Close | None]
    overlapping: bool = False
    # A long poll is pointless once its client is gone; an operation that changes things must run to its end.
    cancel_when_closed: bool = False


Reply = bytes | bytearray | Parts | Later | Close | None


class Place:
    """An awaited answer's place in the order of answers."""

    __slots__ = ("answer", "ready")

    def __init__(self) -> None:
        self.ready = False
        self.answer: Bytes | Parts | None = None
