"""Runs the registry on its listener: the store starts first, then uvicorn takes requests."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headrace.client.security import ClientSecurity
from headrace.config import is_loopback
from headrace.registry.app.application import Access, application
from headrace.registry.store.election import Identity
from headrace.registry.store.store import SchemaStore, StoreSettings
from headrace.web.connections import PerCaller, logged_in_client
from headrace.web.delegation import DelegationTokens
from headrace.web.listener import WebServer
from headrace.web.login import Brokers, Login
from headrace.web.tls import HttpTls


class RegistryServer(WebServer):
    """One instance of the registry on a bound socket. It calls `ready` with its URL when it serves requests."""

    def __init__(
        self,
        listener: socket.socket,
        settings: StoreSettings,
        ready: Callable[[str], None],
        *,
        brokers: Brokers | None = None,
        tls: HttpTls | None = None,
    ) -> None:
        """Callers must log in if the brokers need it."""
        self.store = SchemaStore(settings)
        access = None
        if brokers is not None and brokers.need_login:
            access = _access(brokers, tls, settings.timeout_s)
        super().__init__(
            listener,
            application(
                self.store,
                access,
                lambda: _peer_tls(tls, brokers),
                is_on_loopback=is_loopback(listener.getsockname()[0]),
            ),
            ready=lambda _: ready(settings.identity.url),
            life=_running(self.store, access),
            tls=tls,
        )


def _peer_tls(tls: HttpTls | None, brokers: Brokers | None) -> ssl.SSLContext:
    """For writes that this instance forwards. Without a truststore of its own it has the brokers' one."""
    security = (brokers.security if brokers is not None else None) or ClientSecurity()
    return security.tls_context() if tls is None else tls.peer_context(security.truststore)


def _access(brokers: Brokers, tls: HttpTls | None, timeout_s: float) -> Access:
    is_asking = brokers.own is not None and tls is not None and tls.asks_for_certificates
    tokens = DelegationTokens(brokers, timeout_s=timeout_s) if is_asking else None
    clients = PerCaller(
        lambda caller: logged_in_client(brokers, caller, client_id="headrace-registry-caller", timeout_s=timeout_s)
    )
    return Access(Login(brokers, tls=tls, tokens=tokens), clients, tokens)


@asynccontextmanager
async def _running(store: SchemaStore, access: Access | None) -> AsyncIterator[None]:
    """The store starts first, because a registry that has not read its topic would report missing subjects."""
    try:
        await store.start()
        yield
    finally:
        if access is not None:
            await access.clients.close()
            if access.tokens is not None:
                await access.tokens.close()
        await store.stop()


def identity_of(listener: socket.socket, scheme: str = "http") -> Identity:
    host, port = listener.getsockname()[:2]
    return Identity(host, port, scheme)
