"""Reports of Spark flows, from the topic `__pipelines`, if this broker leads its partition.

A driver writes the report of each flow as JSON under the key `PIPELINE.FLOW`. The reader follows the local log, so only
the leader of the topic exports the metrics of flows and each flow is exported once. Owned by the event loop; a thread
reads the disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterator
from typing import Final

from headrace.broker.lag.figures import FlowReport
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import Fault
from headrace.records.batch import batches
from headrace.records.reader import read_records
from headrace.replication.partitions import Partitions
from headrace.storage.log import Log

_log = logging.getLogger("headrace.telemetry")

TOPIC: Final = "__pipelines"
EVERY_S: Final = 2.0
_CHUNK_BYTES: Final = 1 << 20
Reports = dict[str, FlowReport | None]
Rows = Iterator[tuple[tuple[str, ...], float]]


class FlowReports:
    def __init__(self, partitions: Partitions, clock: Clock = SYSTEM_CLOCK) -> None:
        self._partitions = partitions
        self._clock = clock
        self._reports: dict[str, FlowReport] = {}
        self._at = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="reports of Spark flows")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def rows(self, value: Callable[[FlowReport, int], float | None]) -> Rows:
        """A row for each flow; `value` gets the report and the time."""
        now_ms = self._clock.wall_ms()
        found = ((report, value(report, now_ms)) for report in self._reports.values())
        return (((report.pipeline, report.flow), number) for report, number in found if number is not None)

    async def _run(self) -> None:
        while True:
            try:
                await self.read()
            except Exception:  # boundary of a round: a failure must not end the reading
                _log.exception("the reports of Spark flows could not be read; it is tried again")
            await asyncio.sleep(EVERY_S)

    async def read(self) -> None:
        """Reads what was written since the last call."""
        partition = self._partitions.get(TOPIC, 0)
        if partition is None or not partition.is_leader:
            self._reports, self._at = {}, 0
            return
        log = partition.log
        if self._at > log.high_watermark:
            self._reports, self._at = {}, 0
        self._at = max(self._at, log.log_start_offset)
        while self._at < log.high_watermark:
            try:
                found, self._at = await asyncio.to_thread(_read, log, self._at, log.high_watermark)
            except Fault:
                return  # retention moved the start, or the disk failed: the next round begins there
            for name, report in found.items():
                if report is None:
                    self._reports.pop(name, None)
                else:
                    self._reports[name] = report


def _read(log: Log, start: int, end: int) -> tuple[Reports, int]:
    """The last report of each key in a chunk of the log, None after its deletion; and where the next chunk begins."""
    found: Reports = {}
    place = log.read(start, _CHUNK_BYTES, up_to=end)
    if place is None:
        return found, end
    at = start
    for batch in batches(memoryview(os.pread(place.file.fileno(), place.length, place.position))):
        at = batch.next_offset
        for record in [] if batch.is_control else read_records(batch):
            name = (record.key or b"").decode(errors="replace")
            try:
                found[name] = None if record.value is None else FlowReport.of(json.loads(record.value))
            except (ValueError, TypeError, AttributeError, KeyError):
                continue  # not a report
    return found, max(at, start + 1)
