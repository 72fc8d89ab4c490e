"""Endpoints of the current leaders (KIP-951): the only tagged field at the end of Produce and Fetch responses."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.wire.schema_writer import write_uvarint
from headrace.wire.strings import compact_string

_I32: Final = struct.Struct(">i")


class NodeEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


def write_node_endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """Writes all tagged fields of the response: none, or number 0 with the endpoints."""
    if not endpoints:
        out.append(0)
        return
    field = bytearray()
    write_uvarint(field, len(endpoints) + 1)
    for endpoint in endpoints:
        field += _I32.pack(endpoint.node_id)
        compact_string(field, endpoint.host)
        field += _I32.pack(endpoint.port)
        compact_string(field, endpoint.rack)
        field.append(0)
    out += b"\x01\x00"
    write_uvarint(out, len(field))
    out += field
