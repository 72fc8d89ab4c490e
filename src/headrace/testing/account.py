"""What a broker saw, as text for the report of a failed test: topics with their offsets, groups, last requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.kernel.errors import Fault
from headrace.testing.request_log import SeenRequest

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


async def broker_account(broker: Broker, requests: Iterable[SeenRequest]) -> str:
    """Runs on the event loop of the broker."""
    lines = ["topics:", *(_topics(broker) or ["  none"])]
    lines += ["groups:", *(await _groups(broker) or ["  none"])]
    lines += ["last requests, oldest first:", *([f"  {one}" for one in requests] or ["  none"])]
    return "\n".join(lines)


def _topics(broker: Broker) -> list[str]:
    lines = []
    for name, topic in sorted(broker.parts.gateway.view.current.topics.items()):
        if topic.is_internal:
            continue
        ends = []
        for index in range(len(topic.partitions)):
            log = broker.log_dirs.log(name, index)
            ends.append("?" if log is None else f"{log.log_start_offset}–{log.log_end_offset}")
        lines.append(f"  {name}: offsets {', '.join(ends)}")
    return lines


async def _groups(broker: Broker) -> list[str]:
    try:
        groups = await broker.parts.coordinators.groups.list_groups((), ())
    except Fault as fault:
        return [f"  unknown: {fault.message}"]
    return [f"  {one.group_id}: {one.state}, {one.type or 'classic'}" for one in groups]
