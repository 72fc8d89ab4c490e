"""Whom a quota is for, which of several wins, and which may be stored.

An entity is one or two parts, each a kind with a name, or with None for "whoever has none of their own":

    {("user", "alice"), ("client-id", None)}        alice's clients, each of those without a quota of its own

The most exact one wins, users before clients (Kafka's order):

    user+client  user+default  user  default+client  default+default  default user  client  default client

What is measured follows the winner: a quota of a user is shared by all the user's clients, one of a client by everybody
who uses that client id, one of both belongs to the pair.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.kernel.errors import ErrorCode, Refused

Part = tuple[str, str | None]
Entity = frozenset[Part]
QuotaTable = Mapping[Entity, Mapping[str, float]]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

QUOTA_KEYS: Mapping[str, str] = {
    PRODUCER_BYTE_RATE: "bytes a second that may be produced, on each broker",
    CONSUMER_BYTE_RATE: "bytes a second that may be fetched, on each broker",
    REQUEST_PERCENTAGE: "per cent of a broker's time that requests may take",
    CONTROLLER_MUTATION_RATE: "partitions a second that may be created or deleted",
    CONNECTION_CREATION_RATE: "connections a second that may be opened from an address",
}
_WHOLE_NUMBERS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE)
_IP_KEYS = (CONNECTION_CREATION_RATE,)


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


@dataclass(frozen=True, slots=True)
class Component:
    """One line of a DescribeClientQuotas filter: a kind, and how its name must match (0 this, 1 default, 2 any)."""

    kind: str
    match_type: int
    name: str | None = None

    def holds(self, entity: Mapping[str, str | None]) -> bool:
        if self.kind not in entity:
            return False
        if self.match_type == 0:
            return entity[self.kind] == self.name
        return self.match_type == 2 or entity[self.kind] is None


def matching_entities(table: QuotaTable, components: Iterable[Component], *, strict: bool) -> list[Entity]:
    """Entities that satisfy every component; with `strict`, those that have no further parts."""
    asked = list(components)
    seen: set[str] = set()
    for component in asked:
        if component.kind not in (USER, CLIENT_ID, IP):
            raise Refused(ErrorCode.unsupported_version, f"Custom entity type '{component.kind}' not supported")
        if component.kind in seen:
            raise Refused(ErrorCode.invalid_request, f"{component.kind}: stands twice in the filter")
        if component.match_type not in (0, 1, 2):
            raise Refused(ErrorCode.invalid_request, f"{component.match_type}: no such way to match; 0, 1 and 2 are")
        seen.add(component.kind)
    if IP in seen and len(seen) > 1:
        raise Refused(ErrorCode.invalid_request, "ip: cannot be asked for together with user or client-id")
    found = []
    for entity in table:
        named = dict(entity)
        if strict and len(named) != len(asked):
            continue
        if all(component.holds(named) for component in asked):
            found.append(entity)
    return found


def validate_quota_change(entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Whether these values (None removes one) may be stored for the entity; `Refused` names what is wrong."""
    kinds = {kind for kind, _ in entity}
    if not kinds:
        raise Refused(ErrorCode.invalid_request, "Invalid empty client quota entity")
    for kind in kinds - {USER, CLIENT_ID, IP}:
        raise Refused(ErrorCode.invalid_request, f"Unhandled client quota entity type: {kind}")
    if IP in kinds and len(kinds) > 1:
        raise Refused(ErrorCode.invalid_request, "ip: a quota for an address cannot also be for a user or client")
    for kind, name in entity:
        if name == "":
            raise Refused(ErrorCode.invalid_request, f"{kind}='': must have a name; no name at all means the default")
        if kind == IP and name is not None:
            _check_address(name)
    for key, value in changes.items():
        if key not in QUOTA_KEYS or (key in _IP_KEYS) != (IP in kinds):
            raise Refused(ErrorCode.invalid_request, f"Invalid configuration key {key}")
        if value is not None:
            _check_value(key, value)


def _check_address(name: str) -> None:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise Refused(ErrorCode.invalid_request, f"{name} is not a valid IP address") from None


def _check_value(key: str, value: float) -> None:
    if not math.isfinite(value) or value <= 0:
        raise Refused(ErrorCode.invalid_request, f"{key}='{value}': must be above 0")
    if key in _WHOLE_NUMBERS and abs(value - round(value)) > 1e-6:
        raise Refused(ErrorCode.invalid_request, f"{key}='{value}': must be a whole number")
