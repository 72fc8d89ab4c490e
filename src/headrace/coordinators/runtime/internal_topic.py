"""An internal topic as its coordinator uses it."""

from __future__ import annotations

from typing import Final

from headrace.coordinators.runtime.log import LOAD_BYTES
from headrace.kernel.dataclass import dataclass
from headrace.records.compression import Codec

_WRITE_TIMEOUT_MS: Final = 5_000  # offsets.commit.timeout.ms


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """`partition_count` is used until the topic exists; then its own partitions are."""

    name: str
    partition_count: int
    write_timeout_ms: int = _WRITE_TIMEOUT_MS
    load_bytes: int = LOAD_BYTES
    codec: Codec = Codec.NONE
