"""The entities of quotas, and which of several quotas applies.

An entity has one or two parts, each a type with a name, or with None for the default of that type:

    {("user", "alice"), ("client-id", None)}        each client of alice that has no quota of its own

The most specific quota applies, users before clients (Kafka's order):

    user+client  user+default  user  default+client  default+default  default user  client  default client

The measurement follows the quota that applies: all clients of a user share a user quota, all users of a client id share
a client quota, and a quota of both belongs to the pair.
"""

from __future__ import annotations

import ipaddress
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
    """Entities that may have this client's quota, the most specific first, each with the key of its measurement."""
    for named_user in (user, None):
        for named_client in (client_id, None):
            yield frozenset({(USER, named_user), (CLIENT_ID, named_client)}), (user, client_id)
        yield frozenset({(USER, named_user)}), (user, None)
    for named_client in (client_id, None):
        yield frozenset({(CLIENT_ID, named_client)}), (None, client_id)


def by_address(table: QuotaTable) -> dict[Entity, Mapping[str, float]]:
    """The quotas of addresses as the system spells an address: a request may spell `2001:db8::1` as `2001:DB8:0::1`."""
    return {
        frozenset((kind, _address(name) if kind == IP else name) for kind, name in entity): values
        for entity, values in table.items()
    }


def _address(name: str | None) -> str | None:
    try:
        address = ipaddress.ip_address(name or "")
    except ValueError:
        return name
    return str(getattr(address, "ipv4_mapped", None) or address)


def ip_candidates(address: str) -> tuple[Entity, Entity]:
    return frozenset({(IP, address)}), frozenset({(IP, None)})
