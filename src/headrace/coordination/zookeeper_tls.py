"""TLS to ZooKeeper: from the keys `zookeeper.ssl.*`, and how kazoo connects with it.

kazoo takes files only and does not check host names by itself, so it gets our own context.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from kazoo.handlers.threading import SequentialThreadingHandler

from headrace.config import BROKER_KEYS, BrokerConfig, ConfigError
from headrace.config.listener_security import StoreSettings

if TYPE_CHECKING:
    from headrace.security.tls.client_context import ClientTls


def zookeeper_tls(config: BrokerConfig) -> ClientTls | None:
    """None when TLS is off. `ConfigError` when its certificates cannot be used."""
    if not config.zookeeper_ssl_client_enable:
        for name in config.static:
            if name.startswith("zookeeper.ssl.") and config[name] != BROKER_KEYS[name].default:
                raise ConfigError(name, None, "has no effect without zookeeper.ssl.client.enable=true")
        return None
    from headrace.security.tls.client_context import ClientTls  # imported here: brokers without TLS start faster

    protocols = config.zookeeper_ssl_enabled_protocols or [config.zookeeper_ssl_protocol, "TLSv1.3"]
    return ClientTls.load(
        StoreSettings(
            "zookeeper.ssl.keystore",
            _type(config.zookeeper_ssl_keystore_type, config.zookeeper_ssl_keystore_location),
            config.zookeeper_ssl_keystore_location or None,
            config.zookeeper_ssl_keystore_password,
            key_password=config.zookeeper_ssl_keystore_password,
        ),
        StoreSettings(
            "zookeeper.ssl.truststore",
            _type(config.zookeeper_ssl_truststore_type, config.zookeeper_ssl_truststore_location),
            config.zookeeper_ssl_truststore_location or None,
            config.zookeeper_ssl_truststore_password,
        ),
        check_hostname=config.zookeeper_ssl_endpoint_identification_algorithm.upper() == "HTTPS",
        protocols=protocols,
        suites=config.zookeeper_ssl_cipher_suites or (),
    )


def _type(given: str | None, location: str | None) -> str:
    """Without a type ZooKeeper derives the format from the file extension."""
    if given:
        return given
    name = (location or "").lower()
    return "PEM" if name.endswith(".pem") else "PKCS12" if name.endswith((".p12", ".pfx")) else "JKS"


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, with connections that are encrypted by our context."""

    def __init__(self, tls: ClientTls) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: Any
    ) -> socket.socket:
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.context().wrap_socket(plain, server_hostname=hostname or address[0])
        except BaseException:  # after any failure the socket must not stay open
            plain.close()
            raise
