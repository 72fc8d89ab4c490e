"""Trees of the files that every schema may import without a reference."""

from __future__ import annotations

from functools import cache

from headrace.registry.core.protobuf.descriptors import file_of
from headrace.registry.core.protobuf.file import ProtoFile
from headrace.serialization.protobuf.built_in_files import built_in_descriptor


@cache
def built_in_file(name: str) -> ProtoFile | None:
    descriptor = built_in_descriptor(name)
    return None if descriptor is None else file_of(descriptor)
