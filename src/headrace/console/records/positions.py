"""Places in a topic as an address holds them: `0:17,1:42` is offset 17 of partition 0 and offset 42 of partition 1."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.console.protection import Rejected


def parse_positions(text: str) -> dict[int, int]:
    """Raises Rejected."""
    found = {}
    for part in filter(None, text.split(",")):
        partition, colon, offset = part.partition(":")
        if not colon or not partition.isdecimal() or not offset.isdecimal() or len(part) > 40:
            raise Rejected(400, f"position {part!r}: must be PARTITION:OFFSET")
        found[int(partition)] = int(offset)
    return found


def positions_text(positions: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))
