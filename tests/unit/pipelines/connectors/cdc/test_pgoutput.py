"""PostgreSQL's replication messages: typed values, and unchanged large values."""

from __future__ import annotations

import struct

import pytest

from headrace.pipelines.connectors.cdc.pgoutput import Change, PgOutput, lsn_from_text, lsn_to_text
from headrace.pipelines.errors import PipelineError

_COLUMNS = (("id", 23, 1), ("ok", 16, 0), ("ratio", 701, 0), ("price", 1700, 0), ("text", 25, 0))


def relation() -> bytes:
    out = b"R" + struct.pack(">I", 7) + b"public\0orders\0" + b"d" + struct.pack(">h", len(_COLUMNS))
    for name, kind, flags in _COLUMNS:
        out += struct.pack(">B", flags) + name.encode() + b"\0" + struct.pack(">Ii", kind, -1)
    return out


def row(*values: str | None) -> bytes:
    out = struct.pack(">h", len(values))
    for value in values:
        if value is None or value == "(unchanged)":
            out += b"n" if value is None else b"u"
        else:
            out += b"t" + struct.pack(">i", len(value.encode())) + value.encode()
    return out


def changes(*messages: bytes) -> list[Change]:
    decoder = PgOutput()
    begin, commit = b"B" + bytes(20), b"C" + struct.pack(">BQQq", 0, 10, 11, 0)
    return [change for data in (begin, relation(), *messages, commit) for change in decoder.feed(data)]


def test_values_are_converted_to_their_types() -> None:
    (insert,) = changes(b"I" + struct.pack(">I", 7) + b"N" + row("5", "t", "0.5", "1.10", None))
    assert insert.after == {"id": 5, "ok": True, "ratio": 0.5, "price": "1.10", "text": None}
    assert (insert.operation, insert.table, insert.key, insert.lsn) == ("insert", "public.orders", ("id",), 11)
    (odd,) = changes(b"I" + struct.pack(">I", 7) + b"N" + row("5", "f", "NaN", "NaN", ""))
    assert odd.after == {"id": 5, "ok": False, "ratio": "NaN", "price": "NaN", "text": ""}


def test_unchanged_large_value_is_not_null() -> None:
    new = b"N" + row("5", "t", "1", "2", "(unchanged)")
    (update,) = changes(b"U" + struct.pack(">I", 7) + new)
    assert update.after == {"id": 5, "ok": True, "ratio": 1.0, "price": "2"}
    (moved,) = changes(b"U" + struct.pack(">I", 7) + b"K" + row("4", None, None, None, None) + new)
    assert (moved.before, moved.after) == ({"id": 4}, update.after)
    (full,) = changes(b"U" + struct.pack(">I", 7) + b"O" + row("5", "f", "0", "1", "long") + new)
    assert full.before is not None
    assert (full.before["text"], full.after) == ("long", {**(update.after or {}), "text": "long"})


def test_changes_of_a_transaction_are_returned_in_order_at_commit() -> None:
    insert = b"I" + struct.pack(">I", 7) + b"N" + row("5", "t", "1", "2", "x")
    delete = b"D" + struct.pack(">I", 7) + b"K" + row("5", None, None, None, None)
    found = changes(insert, delete, b"T" + struct.pack(">iBI", 1, 0, 7))
    assert [(change.operation, change.number) for change in found] == [("insert", 0), ("delete", 1), ("truncate", 2)]


def test_malformed_message_is_named() -> None:
    with pytest.raises(PipelineError, match="has not described"):
        changes(b"I" + struct.pack(">I", 8) + b"N" + row("5"))
    with pytest.raises(PipelineError, match="1 values for a table of 5 columns"):
        changes(b"I" + struct.pack(">I", 7) + b"N" + row("5"))


def test_lsn_is_parsed_in_postgres_format() -> None:
    assert lsn_to_text(lsn_from_text("16/B374D848")) == "16/B374D848"
