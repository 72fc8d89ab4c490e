"""Settings of share groups: the broker's, overridden by the group's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.config.key import Value
from headrace.coordinators.share.dead_letters import DeadLetterTopic
from headrace.kernel.dataclass import dataclass
from headrace.kernel.isolation import READ_COMMITTED, READ_UNCOMMITTED


@dataclass(frozen=True, slots=True)
class ShareSettings:
    max_locks: int = 2_000
    max_deliveries: int = 5
    lock_ms: int = 30_000
    auto_offset_reset: str = "latest"
    isolation: int = READ_UNCOMMITTED
    may_renew: bool = True
    dead_letters: DeadLetterTopic | None = None


class TypedValues(Protocol):
    def __getitem__(self, name: str, /) -> Value: ...


def share_settings(broker: TypedValues, group: Mapping[str, str]) -> ShareSettings:
    """`group`: the configs of the GROUP resource."""

    def number(own: str, key: str) -> int:
        return int(group.get(own, broker[key]))

    return ShareSettings(
        max_locks=number("share.partition.max.record.locks", "group.share.partition.max.record.locks"),
        max_deliveries=number("share.delivery.count.limit", "group.share.delivery.count.limit"),
        lock_ms=number("share.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
        auto_offset_reset=group.get("share.auto.offset.reset", "latest"),
        may_renew=group.get("share.renew.acknowledge.enable", "true").lower() != "false",
        dead_letters=_dead_letter_topic(group),
        isolation=READ_COMMITTED if group.get("share.isolation.level") == "read_committed" else READ_UNCOMMITTED,
    )


def _dead_letter_topic(group: Mapping[str, str]) -> DeadLetterTopic | None:
    name = group.get("errors.deadletterqueue.topic.name", "")
    copies = group.get("errors.deadletterqueue.copy.record.enable", "false").lower() == "true"
    return DeadLetterTopic(name, copies) if name else None
