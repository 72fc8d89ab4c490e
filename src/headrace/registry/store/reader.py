"""Follows the topic and replays its records into the state. Only this task changes the state."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from headrace.kernel.errors import ErrorCode, Fault, OffsetOutOfRange
from headrace.registry.core.records import decoded
from headrace.registry.core.state import State
from headrace.registry.store.topic import SchemasTopic

_log = logging.getLogger(__name__)
_MAX_WAIT_MS: Final = 500
_MAX_BYTES: Final = 8 << 20
_PAUSE_S: Final = 0.2


class LogReader:
    def __init__(self, topic: SchemasTopic, state: State) -> None:
        self.topic = topic
        self.state = state
        self.position = 0  # the offset of the next record
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled. Retries if a broker does not answer."""
        leader, started = -1, False
        while True:
            try:
                if not started:
                    self.position = await self.topic.earliest()
                    started = True
                if leader < 0:
                    leader = await self.topic.leader()
                records, after = await self.topic.fetch(
                    leader, self.position, max_wait_ms=_MAX_WAIT_MS, max_bytes=_MAX_BYTES
                )
            except Fault as fault:
                if fault.code is ErrorCode.offset_out_of_range or isinstance(fault, OffsetOutOfRange):
                    started = False
                _log.warning("reading %s: %s", self.topic.name, fault.message)
                leader = -1
                await asyncio.sleep(_PAUSE_S)
                continue
            for record in records:
                entry = decoded(record.key, record.value)
                if entry is None:
                    _log.warning("%s offset %d is not a record of a schema registry", self.topic.name, record.offset)
                else:
                    self.state.replay(entry)
            if after > self.position:
                self.position = after
                self._moved.set()
                self._moved = asyncio.Event()

    async def reached(self, offset: int) -> None:
        """Returns when the state includes all records before `offset`."""
        while self.position < offset:
            await self._moved.wait()
