"""Encoders of strings, legacy and flexible, for the hand-written codecs."""

from __future__ import annotations

import struct
from typing import Final

from headrace.wire.schema_writer import write_uvarint

_I16: Final = struct.Struct(">h")


def compact_string(out: bytearray, text: str | None) -> None:
    if text is None:
        out.append(0)
        return
    data = text.encode()
    write_uvarint(out, len(data) + 1)
    out += data


def nullable_string(out: bytearray, text: str | None) -> None:
    if text is None:
        out += b"\xff\xff"
        return
    data = text.encode()
    out += _I16.pack(len(data))
    out += data
