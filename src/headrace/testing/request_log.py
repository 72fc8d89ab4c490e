"""The last requests that a broker served, for the report of a failed test."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Final

from headrace.kernel.errors import ErrorCode
from headrace.net.replies import CLOSE, Answer
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader, read_response

_KEPT: Final = 200
# Larger answers are data of Fetch: their error codes are not shown.
_LARGEST_ANSWER_BYTES: Final = 4096


@dataclasses.dataclass(slots=True)
class SeenRequest:
    """One request. `answer` is None until it is answered, and for an answer that is not kept."""

    at_ms: int
    header: RequestHeader
    fault: str = ""
    answer: bytes | None = None
    outcome: str = "not answered yet"

    def answered(self, answer: Answer) -> None:
        if answer is None:
            self.outcome = "no answer"
        elif answer is CLOSE:
            self.outcome = "connection closed"
        else:
            self.outcome = "answered"
            first = answer[0] if isinstance(answer, list) and answer else answer
            if isinstance(first, bytes | bytearray | memoryview) and len(first) <= _LARGEST_ANSWER_BYTES:
                self.answer = bytes(first)

    def errors(self) -> list[str]:
        """Names of the error codes in the answer."""
        if self.answer is None:
            return []
        try:
            _, entity = read_response(self.header.api_key, self.header.api_version, memoryview(self.answer)[4:])
        except Exception:  # part of an answer only, or one that a fault has damaged: the report goes on without it
            return []
        return sorted({ErrorCode(code).name.upper() for code in _codes(entity) if code})

    def __str__(self) -> str:
        client = self.header.client_id or "-"
        outcome = ", ".join(self.errors()) or self.outcome
        injected = f"  [fault: {self.fault}]" if self.fault else ""
        return f"{ApiKey(self.header.api_key).title} v{self.header.api_version}  {client}  {outcome}{injected}"


def _codes(value: object) -> Iterator[int]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if field.name == "error_code":
                yield int(inner)
            else:
                yield from _codes(inner)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _codes(one)


class RequestLog:
    """Owned by the event loop of its broker; a test reads it after the fact."""

    def __init__(self) -> None:
        self._seen: deque[SeenRequest] = deque(maxlen=_KEPT)

    def add(self, seen: SeenRequest) -> None:
        self._seen.append(seen)

    def last(self, count: int = 30) -> list[SeenRequest]:
        return list(self._seen)[-count:]
