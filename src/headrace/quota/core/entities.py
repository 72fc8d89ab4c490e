"""Whom a quota is for, and which of several wins.

An entity is one or two parts, each a kind with a name, or with None for "whoever has none of their own":

    {("user", "alice"), ("client-id", None)}        alice's clients, each of those without a quota of its own

The most exact one wins, users before clients (Kafka's order):

    user+client  user+default  user  default+client  default+default  default user  client  default client

What is measured follows the winner: a quota of a user is shared by all the user's clients, one of a client by everybody
who uses that client id, one of both belongs to the pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Part = tuple[str, str | None]
Entity = frozenset[Part]
QuotaTable = Mapping[Entity, Mapping[str, float]]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"


def candidates(user: str, client_id: str) -> Iterator[tuple[Entity, tuple[str | None, str | None]]]:
    """Entities that may hold this client's quota, the winner first, each with what its use is counted under."""
    for named_user in (user, None):
        for named_client in (client_id, None):
            yield frozenset({(USER, named_user), (CLIENT_ID, named_client)}), (user, client_id)
        yield frozenset({(USER, named_user)}), (user, None)
    for named_client in (client_id, None):
        yield frozenset({(CLIENT_ID, named_client)}), (None, client_id)


def ip_candidates(address: str) -> tuple[Entity, Entity]:
    return frozenset({(IP, address)}), frozenset({(IP, None)})
