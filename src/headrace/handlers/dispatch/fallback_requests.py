"""Serves fallback requests (`coordination.fallback_channel`) as requests of brokers.

A program that can write to the coordination store is a broker, or could change the cluster state itself. The request
of a client inside an Envelope is authorized as that client's all the same.
"""

from __future__ import annotations

import logging
from typing import Final

from headrace.coordination.fallback_reader import Serve
from headrace.handlers.dispatch.authorization import OPEN
from headrace.handlers.dispatch.forwarded_requests import serve_forwarded
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import Refused
from headrace.security.principal import ANONYMOUS
from headrace.wire.apis import ApiKey

logger = logging.getLogger(__name__)

# Requests of brokers to the controller: internal topics, in-sync sets, their clients' requests, controlled shutdown,
# producer ids, lost disks.
FALLBACK_APIS: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    }
)


def fallback_service(table: HandlerTable, listener: str, clock: Clock = SYSTEM_CLOCK) -> Serve:
    """`listener`: the brokers' own."""

    async def serve(data: bytes) -> bytes:
        try:
            return await serve_forwarded(
                table,
                data,
                FALLBACK_APIS,
                authorization=OPEN,
                host="",
                listener=listener,
                principal=ANONYMOUS,
                now_ms=clock.wall_ms(),
            )
        except Refused as refused:
            logger.warning("a fallback request was not served: %s", refused.message)
            return b""

    return serve
