"""A schema as a registry holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.kernel.dataclass import dataclass

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
XML: Final = "XML"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """`name` is how the schema text names it; `subject` and `version` are where it is registered."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """`guid` is None if the registry is older than Confluent's 8.0. Subject and version are None after a look-up by
    id, because several subjects can share an id."""

    id: int
    guid: str | None
    subject: str | None
    version: int | None
    kind: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, answer: Mapping[str, Any], **known: Any) -> RegisteredSchema:
        """`known`: fields that the request named and the answer may lack."""
        found = {**known, **{name: value for name, value in answer.items() if value is not None}}
        return cls(
            int(found["id"]),
            found.get("guid"),
            found.get("subject"),
            found.get("version"),
            str(found.get("schemaType", AVRO)),
            str(found["schema"]),
            tuple(
                SchemaReference(each["name"], each["subject"], int(each["version"]))
                for each in found.get("references") or ()
            ),
            found.get("metadata"),
            found.get("ruleSet"),
        )
