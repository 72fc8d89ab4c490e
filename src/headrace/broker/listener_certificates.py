"""The certificates of the TLS listeners."""

from __future__ import annotations

import datetime
import logging
from typing import TYPE_CHECKING

from headrace.config import ListenerSecurity
from headrace.net.listener import Listeners

if TYPE_CHECKING:
    from headrace.security.tls.server_context import ListenerTls

log = logging.getLogger("headrace.broker")


class ListenerCertificates:
    """By listener. Owned by the event loop."""

    def __init__(self, connections: Listeners) -> None:
        self._connections = connections
        self._of: dict[str, ListenerTls] = {}

    def protect(self, name: str, security: ListenerSecurity) -> None:
        """Loads the certificate of a listener. `ConfigError` when it cannot be used; one that has expired is served."""
        from headrace.security.tls.expiry import validity_warning  # brokers without TLS do not pay for loading it
        from headrace.security.tls.server_context import ListenerTls

        tls = ListenerTls(security)
        warning = validity_warning(tls.certificate, datetime.datetime.now(datetime.UTC))
        if warning is not None:
            log.warning("listener %s: %s", name, warning)
        self._of[name] = tls
        self._connections.encrypt(name, tls)
