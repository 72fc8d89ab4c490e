"""The logins that this broker needs: of clients to its listeners, and its own to other brokers.

A broker whose listeners are plain text does not load the modules of the SASL mechanisms. They would take a thirtieth
of its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.config import BrokerConfig, Listeners

if TYPE_CHECKING:
    from headrace.client.security import ClientSecurity
    from headrace.cluster.view import ClusterView
    from headrace.handlers.dispatch.login import ListenerLogin
    from headrace.kernel.clock import Clock


def login_to_brokers(config: BrokerConfig, listeners: Listeners) -> ClientSecurity | None:
    """None if brokers connect in plain text. Raises ConfigError."""
    listener = listeners.advertised_for(listeners.inter_broker)
    if listener.protocol == "PLAINTEXT" or config.stands_alone:
        return None
    from headrace.broker.wiring.inter_broker import inter_broker_security

    return inter_broker_security(config, listener.name)


def logins_of_clients(
    config: BrokerConfig, listeners: Listeners, view: ClusterView, clock: Clock
) -> dict[str, ListenerLogin]:
    """Logins by listener. Raises ConfigError."""
    if not any(listener.protocol.startswith("SASL") for listener in listeners.bound):
        return {}
    from headrace.broker.wiring.listener_logins import ScramUsers, listener_logins

    users = ScramUsers(view, config.delegation_token_secret_key or config.delegation_token_master_key, clock)
    return listener_logins(config, listeners, users, users.find_token, clock)
