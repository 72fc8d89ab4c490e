"""Client quotas: which entities and keys exist, and how a request changes them (KIP-546)."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.cluster.core.changes import QuotaSet
from headrace.cluster.core.image import ClusterImage, QuotaEntity
from headrace.kernel.errors import ErrorCode, Refused

USER, CLIENT_ID, IP = "user", "client-id", "ip"
# The order in which Kafka lists the parts of an entity.
_ORDER: Final = {CLIENT_ID: 0, USER: 1, IP: 2}
_CLIENT_KEYS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
# Keys with fractional values, and the largest value of the other keys.
_FRACTIONS: Final = frozenset({"request_percentage", "controller_mutation_rate"})
_LARGEST_WHOLE: Final = 2**63 - 1
_IP_KEYS: Final = frozenset({"connection_creation_rate"})


def entity_of(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    """The entity in canonical order. Raises INVALID_REQUEST."""
    # The last of duplicate types wins, as in Kafka.
    entity = dict(parts)
    kinds = list(entity)
    if not kinds:
        raise Refused(ErrorCode.invalid_request, "Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in _ORDER:
            raise Refused(ErrorCode.invalid_request, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise Refused(ErrorCode.invalid_request, f"Empty {kind} not supported")
    if IP in kinds and len(kinds) > 1:
        raise Refused(ErrorCode.invalid_request, f"Invalid quota entity combination: {kinds}")
    address = entity.get(IP)
    if address is not None and not _is_address(address):
        raise Refused(ErrorCode.invalid_request, f"{address} is not a valid IP address.")
    return tuple(sorted(entity.items(), key=lambda part: _ORDER[part[0]]))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def altered(image: ClusterImage, entity: QuotaEntity, ops: Sequence[tuple[str, float, bool]]) -> list[QuotaSet]:
    """The change for (key, value, remove) operations. Raises INVALID_REQUEST."""
    allowed = _IP_KEYS if entity[0][0] == IP else _CLIENT_KEYS
    values = dict(image.quotas.get(entity, {}))
    seen: set[str] = set()
    for key, value, remove in ops:
        if key in seen:
            raise Refused(ErrorCode.invalid_request, f"Duplicate quota key {key}: give it once")
        seen.add(key)
        if remove:
            values.pop(key, None)
            continue
        if key not in allowed:
            raise Refused(ErrorCode.invalid_request, f"Invalid configuration key {key}")
        _check_value(key, value)
        values[key] = value
    return [] if values == image.quotas.get(entity, {}) else [QuotaSet(entity, values)]


def _check_value(key: str, value: float) -> None:
    if math.isnan(value) or value <= 0:
        raise Refused(ErrorCode.invalid_request, f"Quota {key} must be greater than 0, but it is {value}")
    if key in _FRACTIONS:
        return
    if value > _LARGEST_WHOLE:
        raise Refused(ErrorCode.invalid_request, f"{key} cannot be greater than {_LARGEST_WHOLE}, but it is {value}")
    if value != math.floor(value):
        raise Refused(ErrorCode.invalid_request, f"{key} cannot be a fractional value, but it is {value}")


EXACT, DEFAULT, ANY = 0, 1, 2


def matching(
    image: ClusterImage, filters: Sequence[tuple[str, int, str | None]], *, strict: bool
) -> dict[QuotaEntity, Mapping[str, float]]:
    """Entities that match every filter (type, match type, name); strict: and have no other parts."""
    seen: set[str] = set()
    for kind, match_type, name in filters:
        if kind in seen:
            raise Refused(ErrorCode.invalid_request, f"Duplicate entity type in filter: {kind}")
        seen.add(kind)
        if not kind:
            raise Refused(ErrorCode.invalid_request, "Unexpected empty filter component entity type")
        if kind not in _ORDER:
            raise Refused(ErrorCode.unsupported_version, f"Custom entity type {kind} not supported")
        if match_type == EXACT and name is None:
            raise Refused(
                ErrorCode.invalid_request, "Request specified MATCH_TYPE_EXACT, but set match string to null."
            )
        if match_type == DEFAULT and name is not None:
            raise Refused(
                ErrorCode.invalid_request, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
            )
        if match_type == ANY and name is not None:
            raise Refused(
                ErrorCode.invalid_request, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
            )
        if match_type not in (EXACT, DEFAULT, ANY):
            raise Refused(ErrorCode.invalid_request, f"Unknown match type {match_type}")
    if IP in seen and len(seen) > 1:
        raise Refused(
            ErrorCode.invalid_request, "Invalid entity filter component combination: ip with user or client-id"
        )
    return {entity: values for entity, values in image.quotas.items() if _fulfils(dict(entity), filters, strict)}


def _fulfils(parts: dict[str, str | None], filters: Sequence[tuple[str, int, str | None]], strict: bool) -> bool:
    if strict and len(parts) != len(filters):
        return False
    for kind, match_type, name in filters:
        if kind not in parts:
            return False
        if match_type == EXACT and parts[kind] != name:
            return False
        if match_type == DEFAULT and parts[kind] is not None:
            return False
    return True
