"""Records of the topic `_schemas`, in Confluent's format: JSON without spaces, fields in a fixed order.

    key type          value
    SCHEMA            one version of a subject; no value = the version is permanently deleted
    CONFIG, MODE      settings of a subject, a context, or (no subject) of everything; no value = they are removed
    DELETE_SUBJECT    all versions of a subject up to this one are soft-deleted
    CLEAR_SUBJECT     soft-deleted versions of a subject are removed
    CONTEXT           a context exists
    NOOP              a new leader marks its position

The order of the fields in a key matters, because compaction compares keys byte by byte.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final

import msgspec

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue
from headrace.registry.core.content import AVRO, Content, Reference, md5_text
from headrace.registry.core.json_text import json_text

TOPIC: Final = "_schemas"
SCHEMA: Final = "SCHEMA"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
CONTEXT: Final = "CONTEXT"
NOOP: Final = "NOOP"
_TENANT: Final = "default"


@dataclass(frozen=True, slots=True)
class Entry:
    """One decoded record. Unknown key types are kept and have no effect."""

    key: Mapping[str, JsonValue]
    value: Mapping[str, JsonValue] | None

    @property
    def kind(self) -> str:
        return str(self.key.get("keytype"))

    def encoded(self) -> tuple[bytes, bytes | None]:
        return json_text(self.key).encode(), None if self.value is None else json_text(self.value).encode()


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    subject: str
    version: int
    id: int
    content: Content
    md5: bytes
    deleted: bool = False


def decoded(key: bytes | None, value: bytes | None) -> Entry | None:
    """None for a record that is not in this format: other programs may write to the topic."""
    try:
        fields = _loads(key or b"")
        document = None if value is None else _loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(document, dict | None):
        return None
    return Entry(fields, document)


def _loads(data: bytes) -> JsonValue:
    """A restart reads every record of the topic, and msgspec takes a third of the time. It is stricter than Java's
    parser, for example about large numbers, so its refusal is not the last word."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(data)


def schema_entry(version: SubjectVersion) -> Entry:
    value = {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "md5": md5_text(version.md5),
        **version.content.extras(),
        "schema": version.content.text,
        "deleted": version.deleted,
    }
    return Entry(_schema_key(version.subject, version.version), value)


def schema_tombstone(subject: str, version: int) -> Entry:
    return Entry(_schema_key(subject, version), None)


def _schema_key(subject: str, version: int) -> dict[str, JsonValue]:
    return {"keytype": SCHEMA, "subject": subject, "version": version, "magic": 1}


def subject_entry(kind: str, subject: str | None, value: Mapping[str, JsonValue] | None) -> Entry:
    """CONFIG, MODE, DELETE_SUBJECT or CLEAR_SUBJECT of a subject, or a global setting."""
    named = {} if subject is None else {"subject": subject}
    return Entry({"keytype": kind, **named, "magic": 0}, None if value is None else {**named, **value})


def context_entry(context: str, *, exists: bool = True) -> Entry:
    value = {"tenant": _TENANT, "context": context}
    return Entry({"keytype": CONTEXT, **value, "magic": 0}, value if exists else None)


def noop_entry() -> Entry:
    return Entry({"keytype": NOOP, "magic": 0}, None)


def version_of(value: Mapping[str, JsonValue]) -> SubjectVersion | None:
    """Decodes a SCHEMA value; None if it is damaged. Registries before 5.5 wrote no md5."""
    try:
        content = Content(
            str(value["schema"]),
            str(value.get("schemaType") or AVRO),
            tuple(
                Reference(str(r["name"]), str(r["subject"]), int(r["version"])) for r in value.get("references") or ()
            ),
            value.get("metadata"),
            value.get("ruleSet"),
        )
        md5 = base64.b64decode(value["md5"]) if value.get("md5") else content.md5()
        return SubjectVersion(
            str(value["subject"]), int(value["version"]), int(value["id"]), content, md5, bool(value.get("deleted"))
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
