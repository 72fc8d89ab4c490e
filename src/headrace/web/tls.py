"""TLS of an HTTP listener, from the `ssl.*` keys that a broker's listener has.

A properties file (`--tls-config`) names the certificate (`ssl.keystore.*`, PEM or PKCS12). With `ssl.client.auth` and
`ssl.truststore.*` the service asks its callers for certificates, and `ssl.principal.mapping.rules` maps them to
principals, as brokers do.

The service reads the files again when they change, so a renewed certificate needs no restart. New connections use it.
If the new files are unusable, the service logs the reason and keeps the certificate that it has.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.config import ConfigError, ListenerSecurity, listener_security, load_broker_config
from headrace.config.listener_security import StoreSettings
from headrace.security.tls.client_context import ClientTls
from headrace.security.tls.server_context import ListenerTls

_log = logging.getLogger(__name__)
_LOOK_EVERY_S: Final = 2.0


class HttpTls:
    """Owned by the event loop."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Raises ConfigError for settings that give no usable certificate, and for keys that are not `ssl.*`."""
        self._security = _listener_security(settings)
        self._tls = ListenerTls(self._security)
        self._peer: ssl.SSLContext | None = None
        self._seen = self._stamps()
        self._look_at = 0.0

    @property
    def asks_for_certificates(self) -> bool:
        return self._security.ssl_client_auth != "none"

    @property
    def requires_certificates(self) -> bool:
        return self._security.ssl_client_auth == "required"

    def context(self) -> ssl.SSLContext:
        """The context of the listening socket. Each handshake switches to the context of the current certificate."""
        first = self._tls.context
        first.sni_callback = self._on_hello
        return first

    def peer_context(self, otherwise: StoreSettings) -> ssl.SSLContext:
        """The context of a connection to another instance of the service, which shows the certificate of the listener.

        Instances trust `ssl.truststore.*`. Without it they trust `otherwise`, or else the authorities of the system.
        """
        self._renew_if_changed()
        if self._peer is None:
            trusted = self._security.ssl_truststore
            trusted = trusted if trusted.is_given else otherwise
            self._peer = ClientTls.load(self._security.ssl_keystore, trusted).context()
        return self._peer

    def principal_of(self, certificate: bytes) -> str:
        """The principal of a client certificate. Raises ValueError if the rules or the certificate give none."""
        return self._tls.principal_of_certificate(certificate)

    def _on_hello(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        self._renew_if_changed()
        connection.context = self._tls.context

    def _renew_if_changed(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY_S
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self._tls.renew(self._security)
        except ConfigError as error:
            _log.warning("the listener keeps its certificate: %s", error)
        else:
            self._peer = None
            _log.info("the listener uses the renewed certificate of %s", self._security.ssl_keystore.location)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        found: list[tuple[int, int, int] | None] = []
        for location in (self._security.ssl_keystore.location, self._security.ssl_truststore.location):
            try:
                state = Path(location).stat() if location else None
            except OSError:
                state = None
            found.append(None if state is None else (state.st_mtime_ns, state.st_size, state.st_ino))
        return found


def _listener_security(settings: Mapping[str, str]) -> ListenerSecurity:
    for name in settings:
        if not name.startswith("ssl."):
            raise ConfigError(name, None, "has no effect on an HTTP listener: the file may hold ssl.* keys only")
    return listener_security(load_broker_config({"listeners": "SSL://127.0.0.1:0", **settings}), "SSL")
