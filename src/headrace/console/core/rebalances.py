"""Why a group rebalanced: the difference of two generations, in words.

A coordinator writes each generation of a group with its members. The members, what they subscribe to and which
partitions they share say what happened. The records of Headrace also have the cause as a header
(`coordinators/codec/rebalance_causes`). Those of Apache Kafka have none: there a member that left and one whose session
expired look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from headrace.coordinators.codec.rebalance_causes import CauseKind, RebalanceCause
from headrace.kernel.dataclass import dataclass
from headrace.kernel.plurals import counted

# More members than this in one rebalance are a number.
_NAMED: Final = 3
# How the page names what ended a membership, in the order of a sentence. None: the record does not tell.
_ENDED: Final[Mapping[CauseKind | None, str]] = {
    CauseKind.LEFT: "left",
    CauseKind.REMOVED: "removed by an administrator",
    CauseKind.SESSION_EXPIRED: "session expired",
    CauseKind.TIMED_OUT: "did not answer within the rebalance timeout",
    CauseKind.NO_ROOM: "refused, because the group is at its maximum size",
    None: "left, or the session expired",
}


@dataclass(frozen=True, slots=True)
class Member:
    client_id: str
    host: str
    instance_id: str | None = None
    topics: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        shown = self.instance_id or self.client_id or "a member"
        return f"{shown} ({self.host.removeprefix('/')})" if self.host else shown


@dataclass(frozen=True, slots=True)
class Generation:
    """`number`: the generation of a classic group, else the epoch. `partitions`: how many its members share; None if
    the record does not say it. `first`: the number of the first generation of such a group. `causes`: what the
    coordinator noted since the generation before."""

    number: int
    at_ms: int
    members: Mapping[str, Member]
    partitions: int | None = None
    first: int = 1
    causes: Sequence[RebalanceCause] = ()


@dataclass(frozen=True, slots=True)
class Rebalance:
    at_ms: int
    generation: int
    members: tuple[str, ...]
    reason: str


def rebalances(generations: Sequence[Generation]) -> list[Rebalance]:
    """Newest first. A record that repeats its generation is no rebalance."""
    if not generations:
        return []
    # The first record of a new group may be the group without members, before the first rebalance.
    is_new = not generations[0].number and not generations[0].members
    found = [] if is_new else [_rebalance(generations[0], _first(generations[0]))]
    for before, after in pairwise(generations):
        if after.number != before.number:
            found.append(_rebalance(after, reason(before, after)))
    return found[::-1]


def _rebalance(generation: Generation, why: str) -> Rebalance:
    names = sorted(member.name for member in generation.members.values())
    return Rebalance(generation.at_ms, generation.number, tuple(names), why)


def _first(generation: Generation) -> str:
    if generation.number <= generation.first and generation.members:
        return f"joined first: {_listed(generation.members.values())}"
    return "the log has no older generation to compare with"


def reason(before: Generation, after: Generation) -> str:
    came = {key: one for key, one in after.members.items() if key not in before.members}
    went = {key: one for key, one in before.members.items() if key not in after.members}
    held = {one.instance_id for one in went.values() if one.instance_id is not None}
    returned = {key for key, one in came.items() if one.instance_id in held}
    instances = {came[key].instance_id for key in returned}
    parts = []
    if returned:
        parts.append(f"restarted: {_listed(came[key] for key in returned)}")
    if new := [one for key, one in came.items() if key not in returned]:
        parts.append(f"joined: {_listed(new)}")
    if gone := {k: one for k, one in went.items() if one.instance_id is None or one.instance_id not in instances}:
        parts += _ended(gone, after.causes)
    parts += _resubscribed(before, after)
    if not parts and None not in (before.partitions, after.partitions) and before.partitions != after.partitions:
        parts.append(f"its topics have {counted(after.partitions or 0, 'partition')} now, before {before.partitions}")
    if not parts:
        parts += _rejoined(after)
    if after.partitions is not None and (between := after.number - before.number - 1) > 0:
        parts.append(f"{counted(between, 'generation')} before it ended without an assignment")
    return "; ".join(parts) or "a member joined again, or the topics of the group changed"


def _ended(gone: Mapping[str, Member], causes: Sequence[RebalanceCause]) -> list[str]:
    """Members that went together for the same reason are named together."""
    noted = {one.member_id: one for one in causes if one.kind in _ENDED}
    parts = []
    for kind, words in _ENDED.items():
        of_kind = {key: one for key, one in gone.items() if (noted[key].kind if key in noted else None) is kind}
        for said in sorted({noted[key].reason if key in noted else "" for key in of_kind}):
            members = [one for key, one in of_kind.items() if (noted[key].reason if key in noted else "") == said]
            parts.append(f"{words}: {_listed(members)}{_quoted(said)}")
    return parts


def _rejoined(after: Generation) -> list[str]:
    asked = {one.member_id: one.reason for one in after.causes if one.kind is CauseKind.REJOINED}
    return [
        f"joined again: {after.members[member_id].name}{_quoted(said)}"
        for member_id, said in sorted(asked.items())
        if member_id in after.members
    ][:_NAMED]


def _quoted(said: str) -> str:
    """The words of the client."""
    return f" (“{said.rstrip('.')}”)" if said else ""


def _resubscribed(before: Generation, after: Generation) -> list[str]:
    found = []
    for key, now in sorted(after.members.items()):
        was = before.members.get(key)
        if was is not None and was.topics != now.topics:
            more, less = sorted(now.topics - was.topics), sorted(was.topics - now.topics)
            told = [f"+{', '.join(more)}"] if more else []
            told += [f"-{', '.join(less)}"] if less else []
            found.append(f"subscription of {now.name}: {' '.join(told)}")
    return found[:_NAMED]


def _listed(members: Iterable[Member]) -> str:
    names = sorted(member.name for member in members)
    return ", ".join(names) if len(names) <= _NAMED else counted(len(names), "member")
