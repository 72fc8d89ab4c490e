"""Implements the interface of `schema_types` for Protobuf."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from headrace.registry.core.content import PROTOBUF
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.protobuf.built_in import built_in_file
from headrace.registry.core.protobuf.compatibility import Files, proto_incompatibilities
from headrace.registry.core.protobuf.descriptors import decoded_descriptor, descriptor_of, file_of
from headrace.registry.core.protobuf.file import ProtoFile
from headrace.registry.core.protobuf.normalization import normalized_file
from headrace.registry.core.protobuf.parsing import parse_proto
from headrace.registry.core.protobuf.printing import proto_text
from headrace.registry.core.protobuf.tags import proto_tags, with_proto_tags
from headrace.registry.core.schema_types import ParsedSchema
from headrace.registry.core.tags import TagChange, Tags


class ParsedProtobuf:
    type = PROTOBUF

    def __init__(self, files: Files) -> None:
        self.files = files

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> ParsedProtobuf:
        """The text is that of a .proto file, or a FileDescriptorProto in base64."""
        file = _file(text)
        imported: dict[str, ProtoFile] = {}
        _import(file, references, imported)
        files = Files(file, imported)
        files.names.check()
        return cls(files)

    def canonical(self) -> str:
        return proto_text(self.files.file)

    def normalized(self) -> str:
        return proto_text(normalized_file(self.files.file, self.files.names))

    def formatted(self, format_: str) -> str:
        if format_ != "serialized":
            return self.canonical()
        descriptor = descriptor_of(self.files.file, self.files.names)
        return base64.b64encode(descriptor.SerializeToString()).decode()

    def resolved(self) -> str:
        return self.canonical()

    def incompatibilities(self, writer: ParsedSchema, *, lenient: bool) -> list[Incompatibility]:
        assert isinstance(writer, ParsedProtobuf)
        return list(proto_incompatibilities(writer.files, self.files))

    def tags(self) -> Tags:
        return proto_tags(self.files.file)

    def with_tags(self, change: TagChange) -> str:
        return proto_text(with_proto_tags(self.files.file, change))

    def field_faults(self) -> list[str]:
        return []

    def has_top_level_field(self, name: str) -> bool:
        messages = self.files.file.messages
        return bool(messages) and any(field.name == name for field in messages[0].all_fields())


def _file(text: str) -> ProtoFile:
    descriptor = decoded_descriptor(text)
    return parse_proto(text) if descriptor is None else file_of(descriptor)


def _import(file: ProtoFile, references: Mapping[str, str], found: dict[str, ProtoFile]) -> None:
    for name in (*file.imports, *file.public_imports):
        if name in found:
            continue
        if name in references:
            imported = _file(references[name])
        else:
            known = built_in_file(name)
            if known is None:
                raise InvalidSchema(
                    f'Invalid Protobuf schema: import "{name}" is neither a reference nor built in: '
                    "add a reference with that name"
                )
            imported = known
        found[name] = imported
        _import(imported, references, found)
