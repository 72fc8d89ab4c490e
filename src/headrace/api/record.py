"""What a reader gets: a value of the topic's type, or the bytes with the reason why they are not one."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.api.errors import WrongValue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """`value` is None for a tombstone, and raises WrongValue for a record that could not be decoded; `error` says why,
    and `raw` has its bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    raw_key: bytes | None
    raw: bytes | None
    decoded: T | None
    error: str | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def value(self) -> T | None:
        if self.error is not None:
            raise WrongValue(f"{self.topic}-{self.partition} offset {self.offset}: {self.error}")
        return self.decoded

    @property
    def key(self) -> str | None:
        """The key as text."""
        return None if self.raw_key is None else self.raw_key.decode(errors="replace")

    @property
    def timestamp(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.timestamp_ms / 1000, datetime.UTC)
