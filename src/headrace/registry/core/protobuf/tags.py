"""Tags of a .proto file: the options `(confluent.message_meta)` and `(confluent.field_meta)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from headrace.registry.core.protobuf.file import Field, Message, Option, ProtoFile
from headrace.registry.core.tags import FIELD, RECORD, Entity, TagChange, Tags

_MESSAGE_META: Final = "(confluent.message_meta)"
_FIELD_META: Final = "(confluent.field_meta)"
_META_FILE: Final = "confluent/meta.proto"
_MEMBER: Final = re.compile(r'\n?\s*\btags\s*:\s*(\[[^\]]*\]|"(?:[^"\\]|\\.)*")\s*,?')
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


def proto_tags(file: ProtoFile) -> Tags:
    return {entity: tags for entity, tags in _entities(file.messages, "") if tags}


def with_proto_tags(file: ProtoFile, change: TagChange) -> ProtoFile:
    """A copy with the changed tags. Raises InvalidSchema for an unknown entity."""
    change.check_found(dict(_entities(file.messages, "")))
    changed = replace(file, messages=tuple(_message(each, "", change) for each in file.messages))
    if proto_tags(changed) and _META_FILE not in (*file.imports, *file.public_imports):
        changed = replace(changed, imports=(*changed.imports, _META_FILE))
    return changed


def _entities(messages: tuple[Message, ...], scope: str) -> Iterator[tuple[Entity, tuple[str, ...]]]:
    for message in messages:
        path = scope + message.name
        yield Entity(path, RECORD), _tags_in(message.options, _MESSAGE_META)
        for field in message.all_fields():
            yield Entity(f"{path}.{field.name}", FIELD), _tags_in(field.options, _FIELD_META)
        yield from _entities(message.messages, f"{path}.")


def _tags_in(options: tuple[Option, ...], meta: str) -> tuple[str, ...]:
    found: list[str] = []
    for option in options:
        if option.name == f"{meta}.tags":
            found += _STRING.findall(option.text)
        elif option.name == meta:
            found += [tag for member in _MEMBER.findall(option.text) for tag in _STRING.findall(member)]
    return tuple(dict.fromkeys(found))


def _message(message: Message, scope: str, change: TagChange) -> Message:
    path = scope + message.name

    def field(each: Field) -> Field:
        return replace(each, options=_options(each.options, _FIELD_META, Entity(f"{path}.{each.name}", FIELD), change))

    return replace(
        message,
        options=_options(message.options, _MESSAGE_META, Entity(path, RECORD), change),
        fields=tuple(map(field, message.fields)),
        one_ofs=tuple(replace(each, fields=tuple(map(field, each.fields))) for each in message.one_ofs),
        messages=tuple(_message(each, f"{path}.", change) for each in message.messages),
    )


def _options(options: tuple[Option, ...], meta: str, entity: Entity, change: TagChange) -> tuple[Option, ...]:
    before = _tags_in(options, meta)
    after = change.applied(entity, before)
    if after == list(before):
        return options
    kept = [each for each in (_without_tags(option, meta) for option in options) if each is not None]
    # One option for each tag is how .proto text gives a repeated field its values.
    return (*kept, *(Option(f"{meta}.tags", f'"{tag}"') for tag in after))


def _without_tags(option: Option, meta: str) -> Option | None:
    if option.name == f"{meta}.tags":
        return None
    if option.name != meta:
        return option
    text = re.sub(r",(\s*)}$", r"\1}", _MEMBER.sub("", option.text))
    return None if re.fullmatch(r"{\s*}", text) else Option(meta, text)
