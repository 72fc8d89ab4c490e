"""Why a group rebalanced: headers of the record that ends a membership or begins a generation.

Kafka's records of a group name its members and no reason, so a member that left looks like one whose session expired.
The coordinator knows the difference. It writes it as headers: Kafka and its tools read keys and values of these records
and skip headers. A header is `headrace.rebalance` with a JSON array of the kind, the member id and the reason that the
client gave (KIP-800).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

HEADER: Final = "headrace.rebalance"
# A record must stay far below `max.message.bytes`, also if a thousand members disappear together.
MAX_CAUSES: Final = 100
# Kafka's clients cut their reasons here.
MAX_REASON_LENGTH: Final = 255


class CauseKind(StrEnum):
    LEFT = "left"
    REMOVED = "removed"
    SESSION_EXPIRED = "session expired"
    TIMED_OUT = "timed out"
    NO_ROOM = "no room"
    REJOINED = "rejoined"


class RebalanceCause(NamedTuple):
    """`LEFT`: the member asked for it. `REMOVED`: an administrator did. `SESSION_EXPIRED`: no heartbeat in time.
    `TIMED_OUT`: it did not rejoin, sync or revoke within the rebalance timeout. `NO_ROOM`: the group is at its maximum
    size. `REJOINED`: it stays, and asked for a rebalance."""

    kind: CauseKind
    member_id: str
    reason: str = ""


def headers_of(causes: Sequence[RebalanceCause]) -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (HEADER, json.dumps([kind, member_id, reason[:MAX_REASON_LENGTH]], separators=(",", ":")).encode())
        for kind, member_id, reason in causes[:MAX_CAUSES]
    )


def causes_in(headers: Iterable[tuple[str, bytes | None]]) -> list[RebalanceCause]:
    """Other headers, and kinds of a newer release, are skipped."""
    found = []
    for name, value in headers:
        if name != HEADER or value is None:
            continue
        try:
            kind, member_id, reason = json.loads(value)
            found.append(RebalanceCause(CauseKind(kind), str(member_id), str(reason)))
        except (ValueError, TypeError):
            continue
    return found
