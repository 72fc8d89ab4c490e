"""Messages between the supervisor and a process, as lines of JSON over a socket that the process inherits.

    supervisor → process   {"settings": {…}, "quiet": false, "shares_store": true}     once, first
                           {"ask": "balance", "ids": […]}   {"ask": "drain", "ids": […], "onto": […]}
                           {"ask": "unregister", "ids": […]}   {"ask": "stop with all"}
    process → supervisor   {"serves": ["127.0.0.1:9092"], "metrics_port": 40123}
                           {"progress": "…"}   {"done": "balance"}   {"failed": "why"}

The end of the stream is a message too: the process or the supervisor has died.
"""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Final

from headrace.config.key import Value

Message = dict[str, Value]
_LONGEST_LINE: Final = 16 << 20


class Channel:
    """One end. `receive` returns None at the end of the stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end, limit=_LONGEST_LINE))

    def send(self, message: Message) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> Message | None:
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        self._writer.close()
