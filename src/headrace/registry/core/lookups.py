"""Queries of the state that parse schemas: references, look-ups by content, compatibility checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headrace.kernel.json_values import JsonValue
from headrace.registry.core import settings
from headrace.registry.core.content import VERSION_PROPERTY, Content, Reference
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.records import SubjectVersion
from headrace.registry.core.schema_types import ParsedSchema, parse
from headrace.registry.core.settings import Level
from headrace.registry.core.state import State
from headrace.registry.core.subjects import context_of, in_context_of


def resolved_references(state: State, subject: str, references: Iterable[Reference]) -> dict[str, str]:
    """Texts of all references by name, including indirect ones, dependencies first. Raises InvalidSchema."""
    found: dict[str, str] = {}
    _resolve(state, subject, references, found, ())
    return found


def _resolve(
    state: State, parent: str, references: Iterable[Reference], found: dict[str, str], path: tuple[str, ...]
) -> None:
    for reference in references:
        subject = in_context_of(parent, reference.subject)
        if not reference.name or not reference.subject:
            raise InvalidSchema(f"Invalid reference {reference.as_json()}: name and subject must not be empty")
        version = state.version(subject, reference.version, deleted=True)
        if version is None:
            raise InvalidSchema(
                f"No schema reference found for subject '{subject}' and version {reference.version} "
                f"(reference '{reference.name}'): register it first"
            )
        place = f"{subject} version {version.version}"
        if place in path:
            raise InvalidSchema(f"Circular reference: {' → '.join((*path, place))}")
        if reference.name not in found:
            _resolve(state, subject, version.content.references, found, (*path, place))
            found[reference.name] = version.content.text


def parsed(state: State, subject: str, content: Content) -> ParsedSchema:
    return parse(content.type, content.text, resolved_references(state, subject, content.references))


def canonical(state: State, subject: str, content: Content, *, normalize: bool) -> tuple[Content, ParsedSchema]:
    """The content as it is stored, and its schema. Raises InvalidSchema."""
    schema = parsed(state, subject, content)
    text = schema.normalized() if normalize else schema.canonical()
    references = tuple(_numbered(state, subject, each) for each in content.references)
    return Content(text, content.type, references, content.metadata, content.rule_set), schema


def _numbered(state: State, subject: str, reference: Reference) -> Reference:
    """A reference to version -1 is one to the version that is the latest now."""
    if reference.version != -1:
        return reference
    latest = state.version(in_context_of(subject, reference.subject), -1, deleted=True)
    return reference if latest is None else replace(reference, version=latest.version)


def find(
    state: State, subject: str, content: Content, *, normalize: bool = False, deleted: bool = False
) -> SubjectVersion | None:
    """The version of the subject that has this content, latest first."""
    exact, schema = canonical(state, subject, content, normalize=normalize)
    context = state.contexts.get(context_of(subject))
    id_ = None if context is None else context.hashes.get(exact.md5())
    versions = state.versions(subject, deleted=deleted)
    for version in reversed(versions):
        if version.id == id_ and version.md5 == exact.md5():
            return version
    for version in reversed(versions):
        if _is_same(state, exact, schema, version):
            return version
    return None


def _is_same(state: State, wanted: Content, schema: ParsedSchema, version: SubjectVersion) -> bool:
    """Also matches a schema with inlined references, or without the version in its metadata."""
    known = version.content
    if known.type != wanted.type or known.rule_set != wanted.rule_set:
        return False
    if _without_version(known.metadata) != _without_version(wanted.metadata):
        return False
    if known.references == wanted.references:
        return known.text == wanted.text
    if wanted.references or not known.references:
        return False
    return parsed(state, version.subject, known).resolved() == schema.resolved()


def _without_version(metadata: Mapping[str, JsonValue] | None) -> JsonValue:
    if metadata is None:
        return None
    properties = {k: v for k, v in (metadata.get("properties") or {}).items() if k != VERSION_PROPERTY}
    rest = {name: value for name, value in metadata.items() if name != "properties" and value}
    return {**rest, **({"properties": properties} if properties else {})} or None


def compatibility_messages(
    state: State, subject: str, content: Content, schema: ParsedSchema, history: Sequence[SubjectVersion]
) -> list[str]:
    """Reasons why the schema may not follow `history` (ascending) at the subject's level; empty if it may."""
    config = settings.config_in_scope(state, subject)
    level = Level(config[settings.LEVEL])
    group = config.get("compatibilityGroup")
    if group is not None:
        history = [each for each in history if _property(each.content, group) == _property(content, group)]
    if level is Level.NONE or not history:
        return []
    lenient = config.get("compatibilityPolicy") == "LENIENT"
    messages: list[str] = []
    for version in reversed(history) if level.is_transitive else history[-1:]:
        found = _against(state, schema, version, level, lenient=lenient)
        if found:
            messages += found
            messages.append(f"{{oldSchemaVersion: {version.version}}}")
            messages.append(f"{{oldSchema: '{version.content.text}'}}")
            break
    if messages:
        messages.append(f"{{compatibility: '{level}'}}")
    return messages


def _against(state: State, schema: ParsedSchema, version: SubjectVersion, level: Level, *, lenient: bool) -> list[str]:
    if version.content.type != schema.type:
        return [
            f"Incompatible because of different schema type: version {version.version} is {version.content.type}, the "
            f"new schema is {schema.type}. Use a new subject, or set the compatibility level to NONE"
        ]
    old = parsed(state, version.subject, version.content)
    found: list[str] = []
    if level.new_reads_old:
        found += map(str, schema.incompatibilities(old, lenient=lenient))
    if level.old_reads_new:
        found += map(str, old.incompatibilities(schema, lenient=lenient))
    return list(dict.fromkeys(found))


def _property(content: Content, name: str) -> JsonValue:
    return ((content.metadata or {}).get("properties") or {}).get(name)
