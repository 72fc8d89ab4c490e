"""The logins of the SASL listeners: their mechanisms, made from the configuration and from the cluster image."""

from __future__ import annotations

import os
from collections.abc import Callable

from headrace.broker.wiring.plain_users import PlainUsers
from headrace.broker.wiring.token_checks import token_check
from headrace.cluster.core.credentials import credential_of, salt_secret
from headrace.cluster.core.tokens import token_of
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig, ConfigError, Listeners
from headrace.config.listener_security import ListenerSecurity, listener_security
from headrace.handlers.dispatch.login import ListenerLogin
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.security.principal import is_user
from headrace.security.sasl import oauthbearer, plain
from headrace.security.sasl.jaas import BadJaas, LoginModule, one_login_module
from headrace.security.sasl.mechanism import ServerMechanism
from headrace.security.sasl.scram import FindToken, ScramServer, TokenCredential
from headrace.security.sasl.scram_credentials import (
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    FakeSalts,
    ScramCredential,
    ScramMechanism,
    credential_for,
)
from headrace.security.sasl.server_login import LoginRules
from headrace.security.sasl.tokens import token_password


def listener_logins(
    config: BrokerConfig, listeners: Listeners, users: ScramUsers, find_token: FindToken, clock: Clock
) -> dict[str, ListenerLogin]:
    """Logins by listener. Raises ConfigError."""
    found: dict[str, ListenerLogin] = {}
    for listener in listeners.bound:
        if listener.protocol.startswith("SASL"):
            security = listener_security(config, listener.name)
            mechanisms = {
                name: _mechanism(config, security, name, users, find_token, clock)
                for name in security.sasl_enabled_mechanisms
            }
            max_reauth_ms = {name: _max_reauth_ms(security, name) for name in mechanisms}
            rules = LoginRules(mechanisms, max_reauth_ms)
            found[listener.name] = ListenerLogin(rules, security.connection_failed_authentication_delay_ms)
    return found


def _max_reauth_ms(security: ListenerSecurity, mechanism: str) -> int:
    own = security.of_mechanisms.get(mechanism.lower(), {})
    return int(own.get("connections.max.reauth.ms", security.connections_max_reauth_ms))


def _mechanism(
    config: BrokerConfig, security: ListenerSecurity, name: str, users: ScramUsers, find_token: FindToken, clock: Clock
) -> Callable[[], ServerMechanism]:
    if name == plain.NAME:
        users_of_plain = PlainUsers(login_module(security, name).options, _jaas_key(security, name))
        return lambda: users_of_plain
    if name == oauthbearer.NAME:
        check = token_check(config, security, clock)
        return lambda: oauthbearer.OAuthBearerServer(check)
    scram = SCRAM_MECHANISMS[name]
    return lambda: ScramServer(scram, users.find, find_token)


def login_module(security: ListenerSecurity, mechanism: str) -> LoginModule:
    """The login module of a mechanism on a listener. Raises ConfigError, which never shows the text."""
    key = _jaas_key(security, mechanism)
    text = security.jaas(mechanism)
    if text is None:
        raise ConfigError(key, None, f"must be set, because listener {security.name} offers {mechanism}")
    try:
        return one_login_module(text)
    except BadJaas as bad:
        raise ConfigError(key, None, str(bad)) from None


def _jaas_key(security: ListenerSecurity, mechanism: str) -> str:
    return f"listener.name.{security.name.lower()}.{mechanism.lower()}.sasl.jaas.config"


class ScramUsers:
    """The users and the delegation tokens of the current cluster image."""

    def __init__(self, view: ClusterView, token_secret: str | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._view = view
        self._token_secret = token_secret
        # Used until the cluster has its first user, and with it a secret.
        self._own_secret = os.urandom(32)

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """The user's credential; for a user that does not exist, one that no password fits."""
        found = credential_of(self._view.current, mechanism, user)
        if found is not None and found.iterations >= MIN_ITERATIONS:
            return found
        return self.unknown(mechanism, user)

    def find_token(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential:
        """Derives keys, so it is slow. A token that does not exist gets a credential that no password fits. So does one
        whose owner is no user, which 0.1.0 made: its login would be one of the user with that name."""
        token = token_of(self._view.current, token_id)
        if token is None or self._token_secret is None or token.is_expired(self._clock.wall_ms()):
            return TokenCredential("", 0, self.unknown(mechanism, token_id))
        if not is_user(token.owner):
            return TokenCredential("", 0, self.unknown(mechanism, token_id))
        credential = credential_for(mechanism, token_password(token_id, self._token_secret))
        return TokenCredential(token.owner.partition(":")[2], token.expires_at_ms, credential)

    def unknown(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        secret = salt_secret(self._view.current)
        return FakeSalts(self._own_secret if secret is None else secret.encode()).credential(mechanism, name)
