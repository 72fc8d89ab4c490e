"""The program of one process of a unit: `python -m headrace.unit.process CONTROL [STORE]`, file descriptors of sockets.

The supervisor sends the settings, and later asks for moves of partitions. When the control socket ends, the supervisor
has died: the process stops, because without its supervisor it has no store, and a new supervisor needs its ports.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from functools import partial
from typing import Final

import uvloop

from headrace.broker.broker import Broker, CannotStart
from headrace.broker.environment import MACHINE, Environment
from headrace.broker.foreground import prepare_process, serve
from headrace.config import BrokerConfig
from headrace.coordination.unit.store import SocketStore, open_socket_store
from headrace.kernel.errors import Fault
from headrace.unit.channel import Channel, Message
from headrace.unit.moves import PartitionMoves

_SHORTEST_TIMEOUT_S: Final = 0.5


class UnitProcess:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._broker: Broker | None = None
        self._moving: asyncio.Task[None] | None = None

    def serves(self, broker: Broker) -> None:
        self._broker = broker
        port = broker.metrics.endpoint.port if broker.metrics is not None else 0
        where = [str(one) for one in broker.listeners.advertised]
        self._channel.send({"serves": where, "metrics_port": port})

    async def stop_reason(self) -> str:
        """Serves the supervisor until it asks for a stop, or is gone. Returns the reason."""
        while (message := await self._channel.receive()) is not None:
            broker = self._broker
            if message["ask"] == "stop with all":
                if broker is not None:
                    broker.hands_over = False
                return "the unit stops"
            if broker is not None:
                self._moving = asyncio.create_task(self._move(broker, message), name="partition moves")
        return "the supervisor has ended"

    async def _move(self, broker: Broker, message: Message) -> None:
        moves = PartitionMoves(
            broker.parts.gateway, broker.min_insync_of, lambda text: self._channel.send({"progress": text})
        )
        try:
            if message["ask"] == "balance":
                await moves.balance(message["ids"])
            elif message["ask"] == "drain":
                await moves.drain(message["ids"], message["onto"])
            else:
                await moves.unregister(message["ids"])
        except Fault as fault:
            self._channel.send({"failed": fault.message})
        else:
            self._channel.send({"done": message["ask"]})


async def _shared_store(descriptor: int, config: BrokerConfig) -> SocketStore:
    return await open_socket_store(
        socket.socket(fileno=descriptor),
        session_timeout=max(_SHORTEST_TIMEOUT_S, config.broker_session_timeout_ms / 1000),
    )


async def _run(config: BrokerConfig, control: socket.socket, store: int | None) -> int:
    process = UnitProcess(await Channel.over(control))
    environment = MACHINE if store is None else Environment(open_store=partial(_shared_store, store))
    return await serve(
        config, environment=environment, on_serving=process.serves, stop_when=asyncio.create_task(process.stop_reason())
    )


def _settings(control: socket.socket) -> Message:
    """The first line. Read byte by byte, because the rest belongs to the channel."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = control.recv(1)
        if not byte:
            raise SystemExit(1)
        line += byte
    message: Message = json.loads(line)
    return message


def main() -> int:
    control = socket.socket(fileno=int(sys.argv[1]))
    store = int(sys.argv[2]) if len(sys.argv) > 2 else None
    message = _settings(control)
    config = BrokerConfig(message["settings"])
    prepare_process(config, quiet=message["quiet"])
    try:
        return int(uvloop.run(_run(config, control, store)))
    except CannotStart as problem:
        print(f"headrace: broker {config.broker_id}: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
