"""How this broker authenticates to other brokers: as a client of their inter-broker listener, with its own settings.

The user name and the password are those of `listener.name.<name>.<mechanism>.sasl.jaas.config`, where <mechanism> is
`sasl.mechanism.inter.broker.protocol`.
"""

from __future__ import annotations

from headrace.broker.wiring.listener_logins import login_module
from headrace.client.security import ClientSecurity
from headrace.config import BrokerConfig, ConfigError, Listeners
from headrace.config.listener_security import ListenerSecurity, listener_security
from headrace.security.sasl.client_login import CLIENT_MECHANISMS


def inter_broker_security(config: BrokerConfig, listeners: Listeners) -> ClientSecurity | None:
    """None if brokers connect in plain text. Raises ConfigError."""
    listener = listeners.advertised_for(listeners.inter_broker)
    if listener.protocol == "PLAINTEXT" or config.stands_alone:
        return None
    security = listener_security(config, listener.name)
    mechanism = username = password = ""
    if security.uses_sasl:
        mechanism, username, password = _credentials(config, security)
    return ClientSecurity(
        protocol=security.protocol,
        mechanism=mechanism,
        username=username,
        password=password,
        truststore=security.ssl_truststore,
        keystore=security.ssl_keystore,
        check_hostname=security.ssl_endpoint_identification_algorithm.lower() == "https",
    )


def _credentials(config: BrokerConfig, security: ListenerSecurity) -> tuple[str, str, str]:
    key = "sasl.mechanism.inter.broker.protocol"
    mechanism = str(config[key]).upper()
    if mechanism not in security.sasl_enabled_mechanisms:
        offered = ", ".join(security.sasl_enabled_mechanisms)
        raise ConfigError(key, mechanism, f"listener {security.name} of the brokers offers only {offered}")
    if mechanism not in CLIENT_MECHANISMS:
        raise ConfigError(key, mechanism, f"brokers log in with one of {', '.join(CLIENT_MECHANISMS)}")
    options = login_module(security, mechanism).options
    if not options.get("username") or "password" not in options:
        name = f"listener.name.{security.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError(name, None, "needs username and password: with them this broker logs in to the others")
    return mechanism, options["username"], options["password"]
