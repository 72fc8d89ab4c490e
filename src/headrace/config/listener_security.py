"""The security settings of one listener, typed: `listener_security(config, "EXTERNAL").ssl_client_auth`.

A key of the listener (`listener.name.external.…`) overrides the same key for all listeners. Settings that cannot have
an effect stop the start (`refuse_without_effect`): a broker must not look secure if it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.config.broker_config import BrokerConfig
from headrace.config.key import ConfigError, Value
from headrace.config.keys import BROKER_KEYS
from headrace.config.listener_keys import MECHANISMS, listener_keys
from headrace.config.listeners import Listeners, resolve_listeners
from headrace.kernel.dataclass import dataclass

OFFERED_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The source of a private key with its certificates, or of trusted certificates: a file or PEM text."""

    setting: str
    """`ssl.keystore` or `ssl.truststore`, with the listener's prefix if the listener has its own. For messages."""
    type: str
    location: str | None
    password: str | None
    key: str | None = None
    certificates: str | None = None
    key_password: str | None = None

    @property
    def is_given(self) -> bool:
        return self.location is not None or self.certificates is not None or self.key is not None


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    name: str
    protocol: str
    ssl_keystore: StoreSettings
    ssl_truststore: StoreSettings
    ssl_client_auth: str
    ssl_protocol: str
    ssl_enabled_protocols: tuple[str, ...]
    ssl_cipher_suites: tuple[str, ...]
    ssl_endpoint_identification_algorithm: str
    ssl_principal_mapping_rules: str
    ssl_allow_dn_changes: bool
    ssl_allow_san_changes: bool
    sasl_enabled_mechanisms: tuple[str, ...]
    sasl_mechanism_inter_broker_protocol: str
    sasl_server_max_receive_size: int
    connections_max_reauth_ms: int
    connection_failed_authentication_delay_ms: int
    of_mechanisms: Mapping[str, Mapping[str, Value]]
    """Keys of one mechanism of this listener, by the mechanism's name in lower case."""
    of_listener: Mapping[str, Value]
    """The value of every SASL key for this listener. Mechanisms read it through `for_mechanism`."""

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def jaas(self, mechanism: str) -> str | None:
        """The line `<login module> required <options>;` of a mechanism, as in the file."""
        value: str | None = self.of_mechanisms.get(mechanism.lower(), {}).get("sasl.jaas.config")
        return value

    def for_mechanism(self, mechanism: str, key: str) -> Value:
        """The value of a SASL key (`sasl.oauthbearer.jwks.endpoint.url`) for a mechanism of this listener."""
        own = self.of_mechanisms.get(mechanism.lower(), {})
        return own[key] if key in own else self.of_listener[key]


def listener_security(config: BrokerConfig, listener_name: str) -> ListenerSecurity:
    """The settings of a listener, by its name in any case. Raises `ConfigError` if they contradict each other."""
    protocol = next(one.protocol for one in resolve_listeners(config).bound if one.name == listener_name.upper())
    own: dict[str, Value] = {}
    of_mechanisms: dict[str, dict[str, Value]] = {name: {} for name in MECHANISMS}
    for found, text in listener_keys({**config.static_of_listeners, **config.dynamic_of_listeners}):
        if found.listener == listener_name.lower():
            held = own if found.mechanism is None else of_mechanisms[found.mechanism]
            held[found.key.name] = found.key.parse(text)

    def value(key: str) -> Value:
        return own.get(key, config[key])

    def named(store: str) -> str:
        is_own = any(key.startswith(store) for key in own)
        return f"listener.name.{listener_name.lower()}.{store}" if is_own else store

    security = ListenerSecurity(
        name=listener_name.upper(),
        protocol=protocol,
        ssl_keystore=StoreSettings(
            setting=named("ssl.keystore"),
            type=value("ssl.keystore.type"),
            location=value("ssl.keystore.location") or None,
            password=value("ssl.keystore.password"),
            certificates=value("ssl.keystore.certificate.chain") or None,
            key=value("ssl.keystore.key") or None,
            key_password=value("ssl.key.password"),
        ),
        ssl_truststore=StoreSettings(
            setting=named("ssl.truststore"),
            type=value("ssl.truststore.type"),
            location=value("ssl.truststore.location") or None,
            password=value("ssl.truststore.password"),
            certificates=value("ssl.truststore.certificates") or None,
        ),
        ssl_client_auth=value("ssl.client.auth"),
        ssl_protocol=value("ssl.protocol"),
        ssl_enabled_protocols=tuple(value("ssl.enabled.protocols")),
        ssl_cipher_suites=tuple(value("ssl.cipher.suites")),
        ssl_endpoint_identification_algorithm=value("ssl.endpoint.identification.algorithm"),
        ssl_principal_mapping_rules=value("ssl.principal.mapping.rules"),
        ssl_allow_dn_changes=value("ssl.allow.dn.changes"),
        ssl_allow_san_changes=value("ssl.allow.san.changes"),
        sasl_enabled_mechanisms=tuple(name.upper() for name in value("sasl.enabled.mechanisms")),
        sasl_mechanism_inter_broker_protocol=config["sasl.mechanism.inter.broker.protocol"],
        sasl_server_max_receive_size=value("sasl.server.max.receive.size"),
        connections_max_reauth_ms=value("connections.max.reauth.ms"),
        connection_failed_authentication_delay_ms=value("connection.failed.authentication.delay.ms"),
        of_mechanisms=of_mechanisms,
        of_listener={name: value(name) for name in BROKER_KEYS if name.startswith("sasl.")},
    )
    _check(security, own)
    return security


def _check(security: ListenerSecurity, own: Mapping[str, Value]) -> None:
    if security.uses_tls and not security.ssl_keystore.is_given:
        raise ConfigError(
            f"listener.name.{security.name.lower()}.ssl.keystore.location",
            None,
            f"listener {security.name} uses {security.protocol} and needs a certificate with its key: set this key, or "
            "ssl.keystore.location",
        )
    if not security.uses_sasl:
        return
    key = "sasl.enabled.mechanisms"
    shown = ",".join(security.sasl_enabled_mechanisms)
    offered = ", ".join(OFFERED_MECHANISMS)
    if not security.sasl_enabled_mechanisms:
        raise ConfigError(key, shown, f"listener {security.name} needs one of {offered}")
    for mechanism in security.sasl_enabled_mechanisms:
        if mechanism not in OFFERED_MECHANISMS:
            name = f"listener.name.{security.name.lower()}.{key}" if key in own else key
            raise ConfigError(name, shown, f"{mechanism} is not offered; name some of {offered}")


def refuse_without_effect(config: BrokerConfig, listeners: Listeners) -> None:
    """Raises `ConfigError` for a security setting that no listener of this broker uses."""
    protocols = {one.name.lower(): one.protocol for one in listeners.bound}
    elsewhere = {name.lower() for name in config["controller.listener.names"] or ()}
    for found, _ in listener_keys({**config.static_of_listeners, **config.dynamic_of_listeners}):
        protocol = protocols.get(found.listener)
        if protocol is None:
            if found.listener not in elsewhere:
                names = ", ".join(protocols)
                raise ConfigError(found.name, None, f"there is no listener {found.listener}; the listeners are {names}")
            continue
        for prefix, is_used in (("ssl.", protocol.endswith("SSL")), ("sasl.", protocol.startswith("SASL"))):
            if found.key.name.startswith(prefix) and not is_used:
                raise ConfigError(
                    found.name, None, f"has no effect, because listener {found.listener} uses {protocol}; remove it"
                )
    for prefix, what, is_used in (
        ("ssl.", "SSL or SASL_SSL", any(one.endswith("SSL") for one in protocols.values())),
        ("sasl.", "SASL_SSL or SASL_PLAINTEXT", any(one.startswith("SASL") for one in protocols.values())),
    ):
        if is_used:
            continue
        for name, text in config.static.items():
            key = BROKER_KEYS[name]
            if name.startswith(prefix) and key.parse(text) != key.default and text.strip():
                raise ConfigError(
                    name, None, f"has no effect, because no listener uses {what}: name one in listeners, or remove it"
                )
