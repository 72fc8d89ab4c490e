"""Keys, values and headers as people read them: by the registry if the bytes name a schema, else JSON, text or hex.

Masking happens here and nowhere else, so pages, searches and exports see the same. If rules mask fields of a topic,
values that cannot be decoded, or are no objects, are not shown at all: they could hold the masked field. Notes about a
failure are not shown either, because they quote the value. Keys that are JSON are masked by the same rules, keys that
may have fields and cannot be decoded are hidden, and other keys are shown. A person cannot choose the schema of values,
because another schema gives the fields other names.
"""

from __future__ import annotations

import json
from typing import Final

from headrace.console.core.masking import MASKED, Mask, masked, masks_of
from headrace.console.records.reading import Beginning
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue
from headrace.records.builder import Record
from headrace.serialization.errors import RegistryUnreachable
from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.schema import PROTOBUF, RegisteredSchema

NULL, JSON, TEXT, HEX, HIDDEN = "null", "json", "text", "hex", "hidden"
# What a row of a list shows of a value.
PREVIEW_CHARACTERS: Final = 400
_KEY_SCHEMA: Final = "__key_schema_id"
_VALUE_SCHEMA: Final = "__value_schema_id"
# Headers of a dead letter that say why it is one.
_FAILURE: Final = ("headrace.error", "__connect.errors.exception", "__dlq.errors.message")
# Blanks, and the byte order marks of UTF-8 and UTF-16.
_BEFORE_JSON: Final = b" \t\r\n\xef\xbb\xbf\xff\xfe\0"
_UNTOLD: Final = "it cannot be decoded; the reason may quote the value, so this console does not show it"
_BEGINNING_ONLY: Final = "only its beginning is shown here: open the record"
# More than this is not parsed as JSON for a list: it would block the page.
_LARGEST_PARSED: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Shown:
    """One key, value or header."""

    kind: str
    value: JsonValue
    """Parsed JSON, or text; hexadecimal digits for bytes."""
    size: int
    schema: str = ""
    error: str = ""

    @property
    def text(self) -> str:
        """One line."""
        if self.kind == NULL:
            return "null"
        return self.value if isinstance(self.value, str) and self.kind != JSON else _compact(self.value)

    @property
    def preview(self) -> str:
        text = self.text
        return text if len(text) <= PREVIEW_CHARACTERS else text[:PREVIEW_CHARACTERS] + "…"

    @property
    def pretty(self) -> str:
        if self.kind in (TEXT, HEX, NULL, HIDDEN):
            return self.text
        return json.dumps(self.value, ensure_ascii=False, indent=2)


@dataclass(frozen=True, slots=True)
class ShownRecord:
    partition: int
    offset: int
    timestamp_ms: int
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...]


class Decoding:
    """How one console shows records of one topic."""

    def __init__(
        self,
        topic: str,
        decoder: RecordDecoder | None,
        masks: tuple[Mask, ...] = (),
        *,
        hides_values: bool = False,
        schema: RegisteredSchema | None = None,
    ) -> None:
        """`schema`: decode values by this one, whatever they name. Ignored where fields are masked."""
        self.topic = topic
        self.masks = masks_of(masks, topic)
        self.hides_values = hides_values
        self._decoder = decoder
        self._schema = None if self.masks else schema

    @property
    def shows_bytes(self) -> bool:
        """Whether raw bytes may be shown."""
        return not self.masks and not self.hides_values

    def record(self, partition: int, record: Record) -> ShownRecord:
        return ShownRecord(
            partition, record.offset, record.timestamp_ms,
            self.shown(record.key, record.headers, is_key=True), self.shown(record.value, record.headers),
            tuple((name, self._header(name, value)) for name, value in record.headers),
        )  # fmt: skip

    def shown(
        self, data: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = (), *, is_key: bool = False
    ) -> Shown:
        if data is None:
            return Shown(NULL, None, 0)
        if self.hides_values:
            return Shown(HIDDEN, "hidden", len(data))
        if isinstance(data, Beginning):
            start, size = _plain(bytes(data)), data.whole_bytes
            found = Shown(start.kind if start.kind in (TEXT, HEX) else TEXT, start.text, size, error=_BEGINNING_ONLY)
        else:
            by_hand = None if is_key else self._by_chosen_schema(data)
            found = by_hand or self._by_registry(data, headers, is_key=is_key) or _plain(data)
        if not self.masks:
            return found
        names_schema = is_key and (data[:1] == b"\0" or any(name == _KEY_SCHEMA for name, _ in headers))
        if is_key and not names_schema and not _may_have_fields(found, data):
            return found
        return self._masked(found, is_key=is_key)

    def _masked(self, found: Shown, *, is_key: bool = False) -> Shown:
        if found.kind == JSON:
            if is_key and not isinstance(found.value, dict | list):
                return found
            value = masked(found.value, self.masks)
            if value != MASKED:
                return Shown(JSON, value, found.size, found.schema, found.error)
        return Shown(HIDDEN, MASKED, found.size, found.schema, found.error)

    def _header(self, name: str, data: bytes | None) -> Shown:
        if data is None:
            return Shown(NULL, None, 0)
        if self.hides_values:
            return Shown(HIDDEN, "hidden", len(data))
        found = _plain(data)
        if not self.masks:
            return found
        if name.startswith(_FAILURE):
            return Shown(HIDDEN, MASKED, len(data))
        return self._masked(found) if found.kind == JSON or _may_have_fields(found, data) else found

    def _by_chosen_schema(self, data: bytes) -> Shown | None:
        """As if the value named the chosen schema. It may name another one in its first bytes, or begin like that by
        chance, so the rest is tried first and then all of it."""
        if self._schema is None or self._decoder is None:
            return None
        named = b"\0" + self._schema.id.to_bytes(4, "big")
        first_message = b"\0" if self._schema.kind == PROTOBUF else b""
        tries = [named + first_message + data]
        if data[:1] == b"\0" and len(data) >= len(named):
            tries.insert(0, named + data[len(named) :])
        found = None
        for each in tries:
            found = self._decoder.decode(self.topic, each)
            if found.error is None:
                return Shown(JSON, found.value, len(data), f"{self._schema.kind.lower()} {self._schema.id} by hand")
        plain = _plain(data)
        return Shown(plain.kind, plain.value, plain.size, error=found.error or "" if found is not None else "")

    def _by_registry(self, data: bytes, headers: tuple[tuple[str, bytes | None], ...], *, is_key: bool) -> Shown | None:
        name = _KEY_SCHEMA if is_key else _VALUE_SCHEMA
        if self._decoder is None or not (data[:1] == b"\0" or any(header == name for header, _ in headers)):
            return None
        try:
            found = self._decoder.decode(self.topic, data, is_key=is_key, headers=headers)
        except RegistryUnreachable as fault:
            plain = _plain(data)
            return Shown(plain.kind, plain.value, plain.size, error=str(fault))
        if found.error is not None or found.schema is None:
            plain = _plain(data)
            reason = _UNTOLD if self.masks and found.error else found.error or ""
            return Shown(plain.kind, plain.value, plain.size, error=reason)
        label = f"{found.schema.kind.lower()} {found.schema.id}"
        return Shown(JSON, found.value, len(data), label)


def _plain(data: bytes) -> Shown:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Shown(HEX, data.hex(" "), len(data))
    if text[:1] in ("{", "[") and len(data) <= _LARGEST_PARSED:
        try:
            return Shown(JSON, json.loads(text), len(data))
        except (ValueError, RecursionError):
            pass
    if any(character < " " and character not in "\t\n\r" for character in text[:4096]):
        return Shown(HEX, data.hex(" "), len(data))
    return Shown(TEXT, text, len(data))


def _may_have_fields(found: Shown, data: bytes) -> bool:
    """Whether this is JSON, or looks like JSON: cut, broken, behind a byte order mark, or in another encoding than
    UTF-8."""
    if found.kind == JSON:
        return isinstance(found.value, dict | list)
    if found.kind == HEX:
        return data.lstrip(_BEFORE_JSON)[:1] in (b"{", b"[")
    text = found.value if found.kind == TEXT and isinstance(found.value, str) else ""
    return "{" in text or text.lstrip("\ufeff \t\r\n").startswith("[")


def _compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)
