"""The offsets of many partitions at an offset or time that the user gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from headrace.client.places import Kind, Place
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted

# Most partitions that a message names.
_NAMED: Final = 5


async def offset_at(
    client: ClusterClient, partitions: Sequence[TopicPartition], place: Place, *, isolation_level: int = 0
) -> dict[TopicPartition, int]:
    """Offsets within the range of each partition. If no record is at or after a time, the log end offset."""
    leaders = await client.leaders(sorted({p.topic for p in partitions}))

    async def ask(time: int) -> dict[TopicPartition, int]:
        found = await list_offsets(client, dict.fromkeys(partitions, time), leaders, isolation_level=isolation_level)
        return {partition: _known(found[partition]) for partition in partitions}

    first = await ask(EARLIEST)
    if place.kind is Kind.BEGINNING:
        return first
    last = await ask(LATEST)
    if place.kind is Kind.END:
        return last
    if place.kind is Kind.TIME:
        at_time = await ask(place.value)
        return {p: last[p] if at_time[p] < 0 else at_time[p] for p in partitions}
    wanted = {p: place.value if place.kind is Kind.OFFSET else last[p] - place.value for p in partitions}
    return {p: min(max(offset, first[p]), last[p]) for p, offset in wanted.items()}


def beyond_end(place: Place, found: Mapping[TopicPartition, int]) -> str | None:
    """`orders-0 ends at offset 3, orders-1 at 0`: partitions that end before the offset of the user."""
    short = {partition: end for partition, end in found.items() if place.kind is Kind.OFFSET and place.value > end}
    if not short:
        return None
    named = [f"{partition} at {end}" for partition, end in sorted(short.items())]
    rest = f" and {counted(len(named) - _NAMED, 'more partition')}" if len(named) > _NAMED else ""
    first, *others = named[:_NAMED]
    return ", ".join([first.replace(" at ", " ends at offset "), *others]) + rest


def _known(found: FoundOffset | Fault) -> int:
    if isinstance(found, Fault):
        raise found
    return found.offset
