"""PostgreSQL's logical replication messages (`pgoutput`, protocol 1) as changes.

Begin, Relation, Insert, Update, Delete, Truncate, Commit: each message is a letter and big-endian fields. PostgreSQL
sends values as text. The decoder converts booleans, integers and floats; other types stay text (a numeric would lose
digits). Pure: bytes in, changes out.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headrace.pipelines.errors import PipelineError

# Values are text, whose form depends on the settings of the server, the database and the user.
TEXT_SETTINGS: Final = (
    "datestyle = 'ISO'",
    "intervalstyle = 'postgres'",
    "bytea_output = 'hex'",
    "extra_float_digits = 3",
)
_EPOCH_2000_US: Final = 946_684_800_000_000


def _float(text: str) -> float | str:
    # JSON cannot represent the other floats (NaN, infinities).
    return value if math.isfinite(value := float(text)) else text


# By PostgreSQL's type OIDs: bool, int8, int2, int4, float4, float8.
_TYPED: Final[dict[int, Callable[[str], object]]] = {
    16: lambda text: text == "t",
    20: int,
    21: int,
    23: int,
    700: _float,
    701: _float,
}


def typed_value(kind: int, text: str | None) -> object:
    """A value that PostgreSQL printed, by the OID of its type."""
    return None if text is None else _TYPED.get(kind, str)(text)


@dataclass(frozen=True)
class Change:
    """One changed row. `before` has the columns of the table's replica identity: the key, or all columns with FULL."""

    operation: str  # insert, update, delete, truncate, read (a row of a snapshot)
    table: str
    before: dict[str, object] | None
    # Without unchanged large values of an update, which PostgreSQL does not send.
    after: dict[str, object] | None
    key: tuple[str, ...]
    lsn: int
    number: int  # position within its transaction
    committed_at_ms: int


@dataclass(frozen=True)
class _Relation:
    table: str
    columns: tuple[tuple[str, int], ...]  # name, type
    key: tuple[str, ...]


@dataclass(frozen=True)
class _Uncommitted:
    """A change of the open transaction."""

    operation: str
    relation: _Relation
    before: dict[str, object] | None
    after: dict[str, object] | None


@dataclass
class PgOutput:
    """Decodes messages in order. Returns the changes of a transaction at its commit."""

    relations: dict[int, _Relation] = field(default_factory=dict)
    _open: list[_Uncommitted] = field(default_factory=list)

    def feed(self, data: bytes) -> list[Change]:
        message = _Message(data)
        match message.letter():
            case "B":
                self._open = []
            case "R":
                self._relation(message)
            case "I":
                relation = self._of(message)
                message.letter()
                self._changed("insert", relation, None, message.row(relation.columns))
            case "U":
                self._update(message)
            case "D":
                relation = self._of(message)
                self._changed("delete", relation, _before(message.letter(), message, relation), None)
            case "T":
                count, _ = message.unpack(">iB")
                for relation_id in message.unpack(f">{count}I"):
                    self._changed("truncate", self.relations[relation_id], None, None)
            case "C":
                return self._committed(message)
        return []

    def _relation(self, message: _Message) -> None:
        (relation_id,) = message.unpack(">I")
        schema, name = message.text(), message.text()
        message.letter()
        (count,) = message.unpack(">h")
        columns, key = [], []
        for _ in range(count):
            (flags,) = message.unpack(">B")
            column = message.text()
            kind, _ = message.unpack(">Ii")
            columns.append((column, kind))
            if flags & 1:
                key.append(column)
        self.relations[relation_id] = _Relation(f"{schema}.{name}", tuple(columns), tuple(key))

    def _of(self, message: _Message) -> _Relation:
        (relation_id,) = message.unpack(">I")
        if relation_id not in self.relations:
            raise PipelineError("PostgreSQL sent a change of a table that it has not described")
        return self.relations[relation_id]

    def _update(self, message: _Message) -> None:
        relation = self._of(message)
        before = None
        letter = message.letter()
        if letter in "KO":
            before = _before(letter, message, relation)
            message.letter()
        sent = message.row(relation.columns)
        # PostgreSQL does not send an unchanged large value. With a full replica identity the old row has it.
        after = {**sent, **{name: value for name, value in (before or {}).items() if sent[name] is _UNCHANGED}}
        self._changed("update", relation, before, _known(after))

    def _changed(
        self, operation: str, relation: _Relation, before: dict[str, object] | None, after: dict[str, object] | None
    ) -> None:
        self._open.append(_Uncommitted(operation, relation, before, after))

    def _committed(self, message: _Message) -> list[Change]:
        _, _, end_lsn, at_us = message.unpack(">BQQq")
        at_ms = (at_us + _EPOCH_2000_US) // 1000
        changes = [
            Change(
                change.operation, change.relation.table, change.before, change.after, change.relation.key,
                lsn=end_lsn, number=number, committed_at_ms=at_ms,
            )
            for number, change in enumerate(self._open)
        ]  # fmt: skip
        self._open = []
        return changes


_UNCHANGED: Final = object()


def _before(identity: str, message: _Message, relation: _Relation) -> dict[str, object]:
    row = _known(message.row(relation.columns))
    # K has only the key. The other columns are sent as null although they may have values.
    return {name: row[name] for name in relation.key} if identity == "K" else row


def _known(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if value is not _UNCHANGED}


class _Message:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def letter(self) -> str:
        self._at += 1
        return chr(self._data[self._at - 1])

    def unpack(self, form: str) -> tuple[int, ...]:
        """Unpacks integers: all fields of these messages are integers."""
        fields: tuple[int, ...] = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return fields

    def text(self) -> str:
        end = self._data.index(b"\0", self._at)
        value = self._data[self._at : end].decode()
        self._at = end + 1
        return value

    def row(self, columns: tuple[tuple[str, int], ...]) -> dict[str, object]:
        (count,) = self.unpack(">h")
        if count != len(columns):
            raise PipelineError(f"PostgreSQL sent a row of {count} values for a table of {len(columns)} columns")
        return {name: self._value(kind) for name, kind in columns}

    def _value(self, kind: int) -> object:
        match self.letter():
            case "n":
                return None
            case "u":
                return _UNCHANGED
        (length,) = self.unpack(">i")
        text = self._data[self._at : self._at + length].decode()
        self._at += length
        return typed_value(kind, text)


def lsn_to_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_from_text(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)
