"""How this broker authenticates to other brokers: as a client of their inter-broker listener, with its own settings.

The user name and the password, or the source of tokens, are those of
`listener.name.<name>.<mechanism>.sasl.jaas.config`, where <mechanism> is `sasl.mechanism.inter.broker.protocol`.
"""

from __future__ import annotations

from headrace.broker.wiring.listener_logins import login_module
from headrace.broker.wiring.token_checks import ALLOWED_URLS, check_allowed
from headrace.client.bearer_tokens import BearerTokens
from headrace.client.security import ClientSecurity
from headrace.config import BrokerConfig, ConfigError
from headrace.config.listener_security import ListenerSecurity, listener_security
from headrace.security.sasl import oauthbearer
from headrace.security.sasl.client_login import CLIENT_MECHANISMS
from headrace.security.sasl.token_source import TOKEN_URL, BadTokenSource, token_source


def inter_broker_security(config: BrokerConfig, listener: str) -> ClientSecurity:
    """`listener` is the listener of the brokers. Raises ConfigError."""
    security = listener_security(config, listener)
    mechanism = username = password = ""
    bearer = None
    if security.uses_sasl:
        mechanism = _mechanism(config, security)
        if mechanism == oauthbearer.NAME:
            bearer = _bearer_tokens(config, security)
            username = bearer.source.title
        else:
            username, password = _credentials(security, mechanism)
    return ClientSecurity(
        protocol=security.protocol,
        mechanism=mechanism,
        username=username,
        password=password,
        bearer=bearer,
        truststore=security.ssl_truststore,
        keystore=security.ssl_keystore,
        check_hostname=security.ssl_endpoint_identification_algorithm.lower() == "https",
    )


def _mechanism(config: BrokerConfig, security: ListenerSecurity) -> str:
    key = "sasl.mechanism.inter.broker.protocol"
    mechanism = str(config[key]).upper()
    if mechanism not in security.sasl_enabled_mechanisms:
        offered = ", ".join(security.sasl_enabled_mechanisms)
        raise ConfigError(key, mechanism, f"listener {security.name} of the brokers offers only {offered}")
    if mechanism not in CLIENT_MECHANISMS:
        raise ConfigError(key, mechanism, f"brokers log in with one of {', '.join(CLIENT_MECHANISMS)}")
    return mechanism


def _bearer_tokens(config: BrokerConfig, security: ListenerSecurity) -> BearerTokens:
    text = security.jaas(oauthbearer.NAME)
    options = {} if text is None else login_module(security, oauthbearer.NAME).options
    prefix = f"listener.name.{security.name.lower()}.oauthbearer."
    try:
        source = token_source(lambda name: security.for_mechanism(oauthbearer.NAME, name), options)
    except BadTokenSource as bad:
        raise ConfigError(f"{prefix}{TOKEN_URL}", None, f"this broker logs in to the others: {bad}") from None
    if source.url and not source.is_file:
        check_allowed(f"{prefix}{TOKEN_URL}", source.url, config[ALLOWED_URLS] or ())
    return BearerTokens(source)


def _credentials(security: ListenerSecurity, mechanism: str) -> tuple[str, str]:
    options = login_module(security, mechanism).options
    if not options.get("username") or "password" not in options:
        name = f"listener.name.{security.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError(name, None, "needs username and password: with them this broker logs in to the others")
    return options["username"], options["password"]
