"""Typed body of a registration, a look-up or a compatibility check."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue
from headrace.registry.core.content import AVRO, Content, Reference, checked_rule_set
from headrace.registry.core.errors import BadRequest, Code, Unprocessable
from headrace.registry.core.tags import EMPTY, TagChange, Tags, tags_from_json

_LARGEST_VERSION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """`version` 0 and `id` -1 mean that the registry chooses."""

    content: Content
    id: int = -1
    version: int = 0
    tags: TagChange | None = None
    keeps_tags: bool = False

    @classmethod
    def from_json(cls, body: JsonValue) -> SchemaRequest:
        """Unknown fields are ignored. Raises BadRequest for a field of the wrong type."""
        if not isinstance(body, dict):
            raise BadRequest(422, "the body must be a JSON object with the field `schema`")
        text = _field(body, "schema", str, "")
        type_ = _field(body, "schemaType", str, AVRO) or AVRO
        rule_set = _field(body, "ruleSet", dict, None)
        checked_rule_set(rule_set)
        content = Content(text, type_.upper(), _references(body), _metadata(body), rule_set)
        return cls(
            content,
            _field(body, "id", int, -1),
            _field(body, "version", int, 0),
            TagChange(tags_from_json(body, "schemaTagsToAdd"), tags_from_json(body, "schemaTagsToRemove"), EMPTY)
            or None,
            bool(body.get("propagateSchemaTags")),
        )


@dataclass(frozen=True, slots=True)
class TagRequest:
    """Changes the tags of a version, and with them metadata or rules. None keeps what the version has."""

    new_version: int
    add: Tags
    remove: Tags
    metadata: Mapping[str, JsonValue] | None
    rule_set: Mapping[str, JsonValue] | None
    rules_to_merge: Mapping[str, JsonValue] | None
    rules_to_remove: frozenset[str]

    @classmethod
    def from_json(cls, body: JsonValue) -> TagRequest:
        if not isinstance(body, dict):
            raise BadRequest(422, "the body must be a JSON object with the field `tagsToAdd` or `tagsToRemove`")
        rules, merged = _field(body, "ruleSet", dict, None), _field(body, "rulesToMerge", dict, None)
        removed = _field(body, "rulesToRemove", list, [])
        if rules is not None and (merged is not None or removed):
            raise Unprocessable(
                Code.INVALID_RULES, "ruleSet should be omitted if specifying rulesToMerge or rulesToRemove"
            )
        checked_rule_set(rules)
        checked_rule_set(merged)
        return cls(
            _field(body, "newVersion", int, 0),
            tags_from_json(body, "tagsToAdd"),
            tags_from_json(body, "tagsToRemove"),
            _metadata(body),
            rules,
            merged,
            frozenset(map(str, removed)),
        )


def _field(body: Mapping[str, JsonValue], name: str, kind: type, absent: JsonValue) -> JsonValue:
    value = body.get(name)
    if value is None:
        return absent
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(400, f"field `{name}` must be a JSON {_JSON_NAMES[kind]}, not {value!r:.80}")
    return value


_JSON_NAMES = {str: "string", int: "number", dict: "object", list: "list"}


def _references(body: Mapping[str, JsonValue]) -> tuple[Reference, ...]:
    found = []
    for each in _field(body, "references", list, []):
        if not isinstance(each, dict):
            raise BadRequest(400, f"a reference must be an object with name, subject and version, not {each!r:.80}")
        name, subject, version = _field(each, "name", str, ""), _field(each, "subject", str, ""), each.get("version")
        if not isinstance(version, int) or isinstance(version, bool):
            raise BadRequest(400, f"reference {name!r}: `version` must be a number, not {version!r:.80}")
        found.append(Reference(name, subject, version))
    return tuple(found)


def _metadata(body: Mapping[str, JsonValue]) -> Mapping[str, JsonValue] | None:
    metadata: dict[str, JsonValue] | None = _field(body, "metadata", dict, None)
    if metadata is None:
        return None
    _field(metadata, "tags", dict, None)
    _field(metadata, "properties", dict, None)
    _field(metadata, "sensitive", list, None)
    return {name: metadata[name] for name in ("tags", "properties", "sensitive") if metadata.get(name)}


def version_number(text: str) -> int:
    """`latest` and `-1` are -1. Raises 42202."""
    if text == "latest":
        return -1
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number != -1 and not 1 <= number <= _LARGEST_VERSION:
        raise Unprocessable(
            Code.INVALID_VERSION,
            f"The specified version '{text}' is not a valid version id. Allowed values are between [1, 2^31-1] and "
            'the string "latest"',
        )
    return number
