"""Protobuf payloads, by message classes that are made at run time from the registry's descriptors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError, Message

from headrace.serialization.errors import SerializationError
from headrace.serialization.plain_values import as_json, base_64
from headrace.serialization.protobuf.built_in_files import built_in_descriptor
from headrace.serialization.protobuf.values import converted, message_values
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import RegisteredSchema
from headrace.serialization.wire_format import message_indexes, split_message_indexes


class ProtobufCodec:
    """`message`: full name of the message to write; the first of the file without it."""

    def __init__(self, schema: RegisteredSchema, client: RegistryClient, message: str | None = None) -> None:
        pool = DescriptorPool()
        try:
            self.file = _loaded(pool, client, schema, f"schema-{schema.id}.proto")
        except (TypeError, DecodeError, ValueError) as fault:
            raise SerializationError(f"schema id {schema.id} is not a Protobuf schema: {fault}") from fault
        self._pool = pool
        self._message = message

    @property
    def record_name(self) -> str | None:
        return str(self.written().full_name)

    def written(self) -> Descriptor:
        """The message that `encode` writes."""
        if self._message is None:
            return _at(self.file, (0,))
        try:
            return self._pool.FindMessageTypeByName(self._message)
        except KeyError:
            known = ", ".join(each.full_name for each in self.file.message_types_by_name.values())
            raise SerializationError(f"the schema has no message {self._message!r}: it has {known}") from None

    def decode_message(self, payload: bytes, indexes: bytes | None) -> Message:
        """`indexes`: the bytes of the header that has them; None if the payload begins with them."""
        if indexes:
            path, data = split_message_indexes(indexes)[0], payload
        else:
            path, data = split_message_indexes(payload) if indexes is None else ((0,), payload)
        message = message_factory.GetMessageClass(_at(self.file, path))()
        try:
            message.ParseFromString(data)
        except DecodeError as fault:
            raise SerializationError(f"the payload is no {message.DESCRIPTOR.full_name}: {fault}") from fault
        return message

    def reread(self, writer: ProtobufCodec, payload: bytes, indexes: bytes | None) -> Message:
        """A record of `writer` as this schema's message: fields are matched by number, as Protobuf does it."""
        sent = writer.decode_message(payload, indexes)
        wanted = self.written()
        if sent.DESCRIPTOR.full_name != wanted.full_name:
            raise SerializationError(f"the record is a {sent.DESCRIPTOR.full_name}, not a {wanted.full_name}")
        message = message_factory.GetMessageClass(wanted)()
        message.ParseFromString(sent.SerializeToString())
        return message

    def decode(self, payload: bytes, indexes: bytes | None = None) -> Any:
        return converted(message_values, self.decode_message(payload, indexes))

    def encode(self, value: Any) -> bytes:
        """A message of the same type, or what Protobuf's JSON form of it is, with the names of the fields."""
        wanted = self.written()
        if isinstance(value, Message):
            if value.DESCRIPTOR.full_name != wanted.full_name:
                raise SerializationError(f"the value is a {value.DESCRIPTOR.full_name}, not a {wanted.full_name}")
            return value.SerializeToString()
        if not isinstance(value, Mapping):
            raise SerializationError(f"{value!r} is no message {wanted.full_name}: must be an object with its fields")
        message = message_factory.GetMessageClass(wanted)()
        try:
            json_format.ParseDict(as_json(value, base_64), message, descriptor_pool=self._pool)
            return bytes(message.SerializeToString())
        except (json_format.ParseError, EncodeError, TypeError, ValueError) as fault:
            raise SerializationError(f"the value is no {wanted.full_name}: {fault}") from fault

    def plain(self, value: Any) -> Any:
        return as_json(value, base_64)

    def indexes(self) -> bytes:
        descriptor = self.written()
        path: list[int] = []
        while descriptor.containing_type is not None:
            outer = descriptor.containing_type
            path.append([each.name for each in outer.nested_types].index(descriptor.name))
            descriptor = outer
        path.append(list(self.file.message_types_by_name).index(descriptor.name))
        return message_indexes(path[::-1])


def _loaded(pool: DescriptorPool, client: RegistryClient, schema: RegisteredSchema, name: str) -> FileDescriptor:
    """Adds the file after its references and the built-in files that it imports."""
    for reference in schema.references:
        if not _has(pool, reference.name):
            _loaded(pool, client, client.referenced(reference), reference.name)
    file = descriptor_pb2.FileDescriptorProto.FromString(client.descriptor(schema))
    file.name = name
    for imported in file.dependency:
        _add_built_in(pool, imported)
    pool.Add(file)
    return pool.FindFileByName(name)


def _add_built_in(pool: DescriptorPool, name: str) -> None:
    if _has(pool, name):
        return
    found = built_in_descriptor(name)
    if found is None:
        raise ValueError(f'import "{name}" is neither a reference nor built in')
    for imported in found.dependency:
        _add_built_in(pool, imported)
    pool.Add(found)


def _has(pool: DescriptorPool, name: str) -> bool:
    try:
        pool.FindFileByName(name)
    except KeyError:
        return False
    return True


def _at(file: FileDescriptor, path: tuple[int, ...]) -> Descriptor:
    level = list(file.message_types_by_name.values())
    found: Descriptor | None = None
    for index in path:
        if not 0 <= index < len(level):
            raise SerializationError(f"message index {list(path)} is not in the schema")
        found = level[index]
        level = list(found.nested_types)
    assert found is not None
    return found
