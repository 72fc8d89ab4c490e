"""Explains why a reader does not get past an offset: the records of the next batch cannot be decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.cli.support.client_settings import security_in
from headrace.client.blocking.client import READ_COMMITTED, READ_UNCOMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, FetchStream
from headrace.kernel.errors import CorruptBatch, Fault
from headrace.kernel.ids import TopicPartition
from headrace.records.reader import fault_in_records
from headrace.records.visible import END_OF_LOG

_WITHIN_S: Final = 5.0


def why_unreadable(
    address: str, client: Mapping[str, str], place: TopicPartition, offset: int, *, committed_only: bool
) -> str | None:
    """A message with topic, partition, offsets and remedy. None if the next batch is readable or there is none."""
    isolation = READ_COMMITTED if committed_only else READ_UNCOMMITTED
    settings = FetchSettings(max_bytes=1 << 20, max_wait_ms=100, isolation=isolation, stall_timeout_s=0.5)
    try:
        with BlockingClient(
            address,
            timeout_s=_WITHIN_S,
            connect_timeout_s=_WITHIN_S,
            patience_s=_WITHIN_S,
            security=security_in(client),
        ) as broker:
            chunk = next(iter(FetchStream(broker, place, offset, offset + 1, settings)))
            batch = next(chunk.batches(offset, END_OF_LOG), None)
            fault = None if batch is None else fault_in_records(batch)
    except CorruptBatch as damage:
        return f"{place}: {damage.message}"
    except Fault:
        return None
    return None if fault is None else fault.of(*place).message
