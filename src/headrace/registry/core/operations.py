"""Write operations. Each one reads the state and returns records and a reply, or raises. It does not change the state.

The writer appends the records to the topic. The client gets the reply after the leader has replayed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue
from headrace.registry.core import records, settings
from headrace.registry.core.content import VERSION_PROPERTY, Content, checked_rule_set, reserved_fields
from headrace.registry.core.data_contracts import merged_rules, with_contract
from headrace.registry.core.errors import Code, Incompatible, InvalidSchema, NotFound, NotPermitted, Unprocessable
from headrace.registry.core.lookups import canonical, compatibility_messages, find, parsed
from headrace.registry.core.records import Entry, SubjectVersion
from headrace.registry.core.requests import SchemaRequest, TagRequest
from headrace.registry.core.schema_types import ParsedSchema
from headrace.registry.core.settings import Mode
from headrace.registry.core.state import State
from headrace.registry.core.subjects import DEFAULT_CONTEXT, context_of, is_valid
from headrace.registry.core.tags import EMPTY, TagChange, Tags

# Largest record of the topic, key and value. The broker's own limit may be lower.
LARGEST_SCHEMA_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Decision:
    records: Sequence[Entry]
    reply: JsonValue


def register(state: State, subject: str, request: SchemaRequest, *, normalize: bool, force: bool = False) -> Decision:
    """Replies with the version. Content that the subject already has skips the checks of mode and compatibility."""
    if not is_valid(subject):
        raise Unprocessable(Code.INVALID_SUBJECT, f"The specified subject '{subject}' is not a valid subject name")
    if len(request.content.text) > LARGEST_SCHEMA_BYTES:
        raise Unprocessable(
            Code.TOO_LARGE,
            f"The schema has {len(request.content.text)} characters; the largest allowed is {LARGEST_SCHEMA_BYTES}: "
            "split it with references",
        )
    config = settings.config_in_scope(state, subject)
    normalize = normalize or bool(config.get("normalize"))
    if request.content.text.strip() and request.version in (0, -1):
        tagged = request.tags is not None or request.keeps_tags
        existing = None if tagged else find(state, subject, request.content, normalize=normalize)
        if existing is not None and request.id in (-1, existing.id):
            return Decision((), existing)
    mode = settings.mode_in_scope(state, subject)
    _check_register_mode(subject, mode, request)
    everything = state.versions(subject, deleted=True)
    alive = [each for each in everything if not each.deleted]
    number = everything[-1].version + 1 if everything else 1
    content = request.content if mode.imports else _from_previous(request, alive, config, number)
    content, schema = canonical(state, subject, content, normalize=normalize)
    content, schema = _tagged(state, subject, content, schema, request, alive)
    if not mode.imports and config.get("validateFields"):
        _check_fields(subject, content, schema, alive)
    context = state.contexts.get(context_of(subject))
    id_ = context.hashes.get(content.md5()) if context is not None else None
    if request.version == 0:
        for each in reversed(alive):
            if each.md5 == content.md5() and request.id in (-1, each.id):
                return Decision((), each)
    if not mode.imports and not force:
        messages = compatibility_messages(state, subject, content, schema, alive)
        if messages:
            raise Incompatible(subject, messages)
    if request.version > 0:
        if number != request.version and not mode.imports:
            raise InvalidSchema(f"Version {request.version} is not one more than the previous version {number - 1}")
        number = request.version
    if request.id >= 0:
        _check_id_is_free(state, subject, request.id, content)
        id_ = request.id
    elif id_ is None:
        id_ = (context.highest_id if context is not None else 0) + 1
    version = SubjectVersion(subject, number, id_, content, content.md5())
    return Decision(_registration_records(state, version, everything), version)


def _tagged(
    state: State,
    subject: str,
    content: Content,
    schema: ParsedSchema,
    request: SchemaRequest,
    alive: Sequence[SubjectVersion],
) -> tuple[Content, ParsedSchema]:
    """The content with the tags that the request adds, removes or keeps from the latest version."""
    inherited: Tags = EMPTY
    if request.keeps_tags and alive and alive[-1].content.type == content.type:
        inherited = parsed(state, subject, alive[-1].content).tags()
    asked = request.tags
    change = TagChange(asked.add if asked else EMPTY, asked.remove if asked else EMPTY, inherited)
    if not change:
        return content, schema
    return canonical(state, subject, replace(content, text=schema.with_tags(change)), normalize=False)


def _check_fields(subject: str, content: Content, schema: ParsedSchema, alive: Sequence[SubjectVersion]) -> None:
    """`validateFields`: defaults fit their types, and reserved fields are not used. Raises 42201 or 40901."""
    faults = schema.field_faults()
    if faults:
        raise InvalidSchema(f"Invalid {content.type} schema: {faults[0]}")
    reserved = reserved_fields(content)
    messages = [
        f"The new schema has field that conflicts with the reserved field {name}."
        for name in reserved
        if schema.has_top_level_field(name)
    ]
    if alive:
        messages += [
            f"The new schema has reserved field {name} removed from its metadata which is present in the old "
            "schema's metadata."
            for name in reserved_fields(alive[-1].content)
            if name not in reserved
        ]
    if messages:
        raise Incompatible(subject, messages)


def change_tags(state: State, subject: str, number: int, request: TagRequest) -> Decision:
    """Registers a new version that has the content of version `number` with other tags."""
    version = state.version(subject, number)
    if version is None:
        raise NotFound.version(number) if state.has_subject(subject) else NotFound.subject(subject)
    content = version.content
    metadata = dict(content.metadata or {} if request.metadata is None else request.metadata)
    metadata["properties"] = {**(metadata.get("properties") or {}), VERSION_PROPERTY: str(request.new_version)}
    rules = content.rule_set if request.rule_set is None else request.rule_set
    rules = merged_rules(rules, request.rules_to_merge, request.rules_to_remove)
    text = parsed(state, subject, content).with_tags(TagChange(request.add, request.remove, EMPTY))
    changed = Content(text, content.type, content.references, metadata, rules)
    return register(state, subject, SchemaRequest(changed, version=request.new_version), normalize=False)


def _registration_records(state: State, version: SubjectVersion, before: Sequence[SubjectVersion]) -> list[Entry]:
    found: list[Entry] = []
    context = context_of(version.subject)
    if context != DEFAULT_CONTEXT and context not in state.contexts:
        found.append(records.context_entry(context))
    for each in before:
        # A soft-deleted version with the same content is deleted permanently, unless a reference still uses it.
        gives_way = each.deleted and each.id == version.id and each.version < version.version
        if gives_way and not state.referenced_by(each.subject, each.version, deleted=True):
            found.append(records.schema_tombstone(each.subject, each.version))
    return [*found, records.schema_entry(version)]


def _from_previous(
    request: SchemaRequest, alive: Sequence[SubjectVersion], config: Mapping[str, JsonValue], number: int
) -> Content:
    """A request without text changes only metadata or rules of the latest version."""
    content, previous = request.content, alive[-1].content if alive else None
    if not content.text.strip():
        if previous is None:
            raise InvalidSchema("Empty schema: the field `schema` must hold the text of the schema")
        content = Content(previous.text, previous.type, previous.references, content.metadata, content.rule_set)
    return with_contract(content, previous, config, number, request.version)


def _check_register_mode(subject: str, mode: Mode, request: SchemaRequest) -> None:
    if mode.is_read_only:
        raise NotPermitted(f"Subject {subject} is in read-only mode")
    if request.id >= 0 and not mode.imports:
        raise NotPermitted(f"Subject {subject} is not in import mode: an id can be given only in mode IMPORT")
    if request.id < 0 and mode is not Mode.READWRITE:
        raise NotPermitted(
            f"Subject {subject} is not in read-write mode: in mode {mode} a registration must give an id"
        )


def _check_id_is_free(state: State, subject: str, id_: int, content: Content) -> None:
    for each in state.places(id_, context_of(subject)):
        if each.md5 != content.md5():
            raise NotPermitted(
                f"Overwrite new schema with id {id_} in context {context_of(subject)} is not permitted: "
                f"the id belongs to version {each.version} of subject '{each.subject}'"
            )


def delete_subject(state: State, subject: str, *, permanent: bool) -> Decision:
    """Replies with the version numbers."""
    if not state.has_subject(subject, deleted=True):
        raise NotFound.subject(subject)
    if not permanent and not state.has_subject(subject):
        raise NotFound(
            Code.SUBJECT_SOFT_DELETED,
            f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
        )
    _check_writable(state, subject)
    versions = state.versions(subject, deleted=permanent)
    for each in versions:
        referrers = state.referenced_by(subject, each.version, deleted=permanent)
        _check_unreferenced(each, [other for other in referrers if other.subject != subject])
        if permanent and not each.deleted:
            raise NotFound(
                Code.SUBJECT_NOT_SOFT_DELETED,
                f"Subject '{subject}' was not deleted first before being permanently deleted",
            )
    numbers = [each.version for each in versions]
    if not permanent:
        return Decision([records.subject_entry(records.DELETE_SUBJECT, subject, {"version": numbers[-1]})], numbers)
    tombstones = [records.schema_tombstone(subject, number) for number in reversed(numbers)]
    return Decision([*tombstones, *_settings_removed(state, subject)], numbers)


def delete_version(state: State, subject: str, number: int, *, permanent: bool) -> Decision:
    """Replies with the version number. `-1` is the latest."""
    version = state.version(subject, number, deleted=True)
    if version is None:
        if not state.has_subject(subject, deleted=True):
            raise NotFound.subject(subject)
        raise NotFound.version(number)
    if version.deleted and not permanent:
        raise NotFound(
            Code.VERSION_SOFT_DELETED,
            f"Subject '{subject}' Version {version.version} was soft deleted. Set permanent=true to delete permanently",
        )
    _check_writable(state, subject)
    _check_unreferenced(version, state.referenced_by(subject, version.version, deleted=permanent))
    if not permanent:
        gone = SubjectVersion(subject, version.version, version.id, version.content, version.md5, deleted=True)
        return Decision([records.schema_entry(gone)], version.version)
    if not version.deleted:
        raise NotFound(
            Code.VERSION_NOT_SOFT_DELETED,
            f"Subject '{subject}' Version {version.version} was not deleted first before being permanently deleted",
        )
    found = [records.schema_tombstone(subject, version.version)]
    if len(state.versions(subject, deleted=True)) == 1:
        found += _settings_removed(state, subject)
    return Decision(found, version.version)


def _settings_removed(state: State, subject: str) -> list[Entry]:
    kinds = ((records.MODE, state.modes), (records.CONFIG, state.configs))
    return [records.subject_entry(kind, subject, None) for kind, known in kinds if subject in known]


def _check_unreferenced(version: SubjectVersion, referrers: Sequence[SubjectVersion]) -> None:
    if referrers:
        named = ", ".join(f"'{each.subject}' version {each.version}" for each in referrers[:5])
        raise Unprocessable(
            Code.REFERENCE_EXISTS,
            f"One or more references exist to the schema of subject '{version.subject}' version {version.version}: "
            f"delete {named} first",
        )


def _check_writable(state: State, subject: str | None) -> None:
    if settings.mode_in_scope(state, subject).is_read_only:
        raise NotPermitted(f"Subject {subject or 'global'} is in read-only mode")


def set_config(state: State, subject: str | None, body: Mapping[str, JsonValue]) -> Decision:
    """Replies with the whole configuration of the subject, with the field names of Confluent's update."""
    changes = settings.config_changes(body)
    for name in ("defaultRuleSet", "overrideRuleSet"):
        checked_rule_set(changes.get(name))
    if subject is not None and not is_valid(subject, may_be_scope=True):
        raise Unprocessable(Code.INVALID_SUBJECT, f"The specified subject '{subject}' is not a valid subject name")
    _check_writable(state, subject)
    config = settings.merged(state.configs.get(subject), changes)
    reply = {("compatibility" if name == settings.LEVEL else name): value for name, value in config.items()}
    return Decision([records.subject_entry(records.CONFIG, subject, config)], reply)


def delete_config(state: State, subject: str | None) -> Decision:
    config = settings.config_of(state, subject)
    if config is None:
        assert subject is not None
        raise NotFound.subject(subject)
    _check_writable(state, subject)
    return Decision([records.subject_entry(records.CONFIG, subject, None)], config)


def set_mode(state: State, subject: str | None, body: Mapping[str, JsonValue], *, force: bool) -> Decision:
    mode = settings.mode_named(body.get("mode"))
    if subject is not None and not is_valid(subject, may_be_scope=True):
        raise Unprocessable(Code.INVALID_SUBJECT, f"The specified subject '{subject}' is not a valid subject name")
    if mode is Mode.FORWARD and subject is not None:
        raise Unprocessable(Code.INVALID_MODE, "Forward mode only supported on global level")
    found: list[Entry] = []
    if mode is Mode.IMPORT and settings.mode_in_scope(state, subject) is not Mode.IMPORT and not force:
        alive = next(state.subjects_in(subject), None)
        if alive is not None:
            raise NotPermitted(
                f"Cannot import since found existing subjects ('{alive}'): delete them first, or use force=true"
            )
        for name in state.subjects_in(subject, deleted=True):
            for version in state.versions(name, deleted=True):
                _check_unreferenced(version, state.referenced_by(name, version.version, deleted=True))
                found.append(records.schema_tombstone(name, version.version))
        found.append(records.subject_entry(records.CLEAR_SUBJECT, subject, {}))
    found.append(records.subject_entry(records.MODE, subject, {"mode": mode.value}))
    return Decision(found, {"mode": mode.value})


def delete_mode(state: State, subject: str | None, *, recursive: bool) -> Decision:
    mode = state.modes.get(subject)
    below = [name for name in state.subjects_in(subject, deleted=True) if name in state.modes] if recursive else []
    if mode is None and subject is not None and not recursive:
        raise NotFound.subject(subject)
    removed = [*([subject] if mode is not None else []), *(name for name in below if name != subject)]
    reply = {"mode": mode or Mode.READWRITE.value}
    return Decision([records.subject_entry(records.MODE, name, None) for name in removed], reply)


def delete_context(state: State, context: str) -> Decision:
    if next(state.subjects_in(f":{context}:", deleted=True), None) is not None:
        raise Unprocessable(
            Code.CONTEXT_NOT_EMPTY, f"Context {context} is not empty: delete its subjects permanently first"
        )
    known = context in state.contexts and context != DEFAULT_CONTEXT
    return Decision([records.context_entry(context, exists=False)] if known else (), None)
