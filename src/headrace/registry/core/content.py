"""The content of a schema, independent of subject and version: type, text, references, metadata and rules.

Equal contents have equal ids. The MD5 of the content is the key of this comparison, and its 16 bytes as a UUID are the
GUID. The hashed parts have Confluent's order.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Mapping
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue
from headrace.registry.core.errors import Code, Unprocessable

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
XML: Final = "XML"
VERSION_PROPERTY: Final = "confluent:version"
RESERVED_PROPERTY: Final = "confluent:reserved"
_RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")
_RULE_TEXTS: Final = ("name", "doc", "kind", "mode", "type")


@dataclass(frozen=True, slots=True)
class Reference:
    """`name` is how the schema text names it; `subject` and `version` are where it is registered."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, JsonValue]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Content:
    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, JsonValue] | None = None
    rule_set: Mapping[str, JsonValue] | None = None

    def md5(self) -> bytes:
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for reference in self.references:
            digest.update(reference.name.encode() + reference.subject.encode() + reference.version.to_bytes(4, "big"))
        if self.metadata is not None:
            digest.update(b"\x01" + _metadata_bytes(self.metadata))
        if self.rule_set is not None:
            digest.update(b"\x01" + _rule_set_bytes(self.rule_set))
        return digest.digest()

    def extras(self) -> dict[str, JsonValue]:
        """Optional parts, which records and answers include only if they are set."""
        found: dict[str, JsonValue] = {}
        if self.type != AVRO:
            found["schemaType"] = self.type
        if self.references:
            found["references"] = [each.as_json() for each in self.references]
        if self.metadata is not None:
            found["metadata"] = self.metadata
        if self.rule_set is not None:
            found["ruleSet"] = self.rule_set
        return found


def reserved_fields(content: Content) -> list[str]:
    """Names that the metadata reserves: no field of the schema may have them."""
    text = str(((content.metadata or {}).get("properties") or {}).get(RESERVED_PROPERTY, ""))
    return [name.strip() for name in text.split(",") if name.strip()]


def has_rule_of(content: Content, type_: str) -> bool:
    rules = (rule for group in _RULE_LISTS for rule in (content.rule_set or {}).get(group) or ())
    return any(rule.get("type") == type_ for rule in rules)


def guid_of(md5: bytes) -> str:
    return str(uuid.UUID(bytes=md5))


def md5_of_guid(guid: str) -> bytes | None:
    try:
        return uuid.UUID(guid).bytes
    except ValueError:
        return None


def md5_text(md5: bytes) -> str:
    return base64.b64encode(md5).decode()


def _metadata_bytes(metadata: Mapping[str, JsonValue]) -> bytes:
    """Maps are sorted by key, as Confluent's entities keep them."""
    out = b""
    for name, values in sorted((metadata.get("tags") or {}).items()):
        out += str(name).encode() + b"".join(str(each).encode() for each in sorted(values))
    for name, value in sorted((metadata.get("properties") or {}).items()):
        out += str(name).encode() + str(value).encode()
    return out + b"".join(str(each).encode() for each in sorted(metadata.get("sensitive") or ()))


def _rule_set_bytes(rule_set: Mapping[str, JsonValue]) -> bytes:
    out = b"".join(_rule_bytes(rule) for name in _RULE_LISTS for rule in rule_set.get(name) or ())
    return out + str(rule_set.get("enableAt") or "").encode()


def _rule_bytes(rule: Mapping[str, JsonValue]) -> bytes:
    out = b"".join(str(rule[name]).encode() for name in _RULE_TEXTS if rule.get(name) is not None)
    out += b"".join(str(each).encode() for each in sorted(rule.get("tags") or ()))
    for name, value in sorted((rule.get("params") or {}).items()):
        out += str(name).encode() + str(value).encode()
    out += b"".join(
        str(rule[name]).encode() for name in ("expr", "onSuccess", "onFailure") if rule.get(name) is not None
    )
    return out + (b"\x01" if rule.get("disabled") else b"")


def checked_rule_set(rule_set: Mapping[str, JsonValue] | None) -> None:
    """Raises 42210 for rules without name or type, with a name twice, or with a mode that their list does not allow."""
    if rule_set is None:
        return
    names: set[str] = set()
    for group in _RULE_LISTS:
        for rule in rule_set.get(group) or ():
            name = rule.get("name") if isinstance(rule, Mapping) else None
            if not name:
                raise Unprocessable(Code.INVALID_RULES, f"a rule in {group} has no name: give each rule a unique name")
            if name in names:
                raise Unprocessable(Code.INVALID_RULES, f"rule '{name}' is there twice: rule names must be unique")
            names.add(name)
            if not rule.get("type"):
                raise Unprocessable(Code.INVALID_RULES, f"rule '{name}' has no type: name one, for example CEL")
            migrates = rule.get("mode") in ("UPGRADE", "DOWNGRADE", "UPDOWN")
            if migrates is not (group == "migrationRules"):
                wanted = "UPGRADE, DOWNGRADE or UPDOWN" if group == "migrationRules" else "WRITE, READ or WRITEREAD"
                raise Unprocessable(
                    Code.INVALID_RULES, f"rule '{name}' in {group} has mode {rule.get('mode')}: must be {wanted}"
                )
