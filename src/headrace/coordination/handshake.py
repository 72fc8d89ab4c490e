"""Limits how long kazoo waits for ZooKeeper's answer to a connection's handshake.

A ZooKeeper server that is starting accepts connections before it can answer them, and never answers some of them. kazoo
waits for that answer as long as the session may be silent, which is as long as a broker's whole start may take. So the
first handshake gets two seconds and each further one twice as long, until ZooKeeper answers: a starting server gets a
new connection soon, and a slow server gets the time it needs.
"""

from __future__ import annotations

from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect

FIRST_LIMIT_S: Final = 2.0


class HandshakeLimit:
    """The time for the next handshake. It doubles after each handshake without an answer."""

    def __init__(self) -> None:
        self._limit_s = FIRST_LIMIT_S

    def next(self, at_most_s: float) -> float:
        limit_s = min(self._limit_s, at_most_s)
        self._limit_s = limit_s * 2
        return limit_s

    def answered(self) -> None:
        self._limit_s = FIRST_LIMIT_S


class _LimitedHandshakes(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._handshake_limit = HandshakeLimit()

    def _invoke(self, timeout: float, request: object, xid: int | None = None) -> object:
        if not isinstance(request, Connect):
            return super()._invoke(timeout, request, xid)
        answer = super()._invoke(self._handshake_limit.next(timeout), request, xid)
        self._handshake_limit.answered()
        return answer


class Client(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A kazoo client whose handshakes are limited."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        usual: ConnectionHandler = vars(self)["_connection"]
        self._connection = _LimitedHandshakes(
            self, usual.retry_sleeper, logger=self.logger, sasl_options=usual.sasl_options
        )
