"""A proxy in front of a broker that simulates a bad network: it delays or duplicates requests, or loses answers.

    with ChaosProxy(seed=1, fates={26: Fates(late=0.1, twice=0.1, unanswered=0.1)}) as proxy:
        with broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}) as running:
            proxy.broker_port = running.broker.listeners.bound[0].port

*Late*: the proxy delays the request. *Twice*: the proxy sends a copy some time later, over a connection of its own,
when the client has continued. *Unanswered*: the proxy forwards the request and closes the client's connection instead
of the answer.
"""

from __future__ import annotations

import asyncio
import random
import struct
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType


@dataclass(frozen=True)
class Fates:
    """Probability of each fault. `longest` is the maximum delay of a request or its copy, in seconds."""

    late: float = 0.0
    twice: float = 0.0
    unanswered: float = 0.0
    longest: float = 0.1


class ChaosProxy:
    """Runs on a thread of its own. Counts its faults in `late`, `copies` and `cut`."""

    def __init__(self, seed: int, fates: Mapping[int, Fates]) -> None:
        self.broker_port = 0
        self.port = 0
        self.late = self.copies = self.cut = 0
        self._fates = fates
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._started: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> ChaosProxy:
        self._thread.start()
        self.port = self._started.result(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._client, "127.0.0.1", 0))
        self._started.set_result(server.sockets[0].getsockname()[1])
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self.broker_port)
        except OSError:
            writer.close()
            return
        answers = self._spawn(self._pass_on(broker_reader, writer))
        try:
            while True:
                frame = await _read_frame(reader)
                fate = self._fates.get(struct.unpack_from(">h", frame, 4)[0], Fates())
                if self._happens(fate.late):
                    self.late += 1
                    await asyncio.sleep(self._random.uniform(0, fate.longest))
                if self._happens(fate.twice):
                    self.copies += 1
                    self._spawn(self._deliver_again(frame, self._random.uniform(0, fate.longest)))
                cut = self._happens(fate.unanswered)
                broker_writer.write(frame)
                if cut:
                    self.cut += 1
                    answers.cancel()
                    # The broker gets the request. The client never learns the outcome.
                    await asyncio.sleep(0.01)
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            answers.cancel()
            writer.close()
            broker_writer.close()

    def _happens(self, chance: float) -> bool:
        return self._random.random() < chance

    def _spawn(self, work: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _deliver_again(self, frame: bytes, delay: float) -> None:
        await asyncio.sleep(delay)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.broker_port)
            writer.write(frame)
            async with asyncio.timeout(5):
                await _read_frame(reader)
            writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(struct.unpack(">i", head)[0])
