"""Whether a reader schema can read data of a writer schema, with the results of Apache Avro's SchemaCompatibility.

Type names are compared without namespaces, as in Apache Avro; an alias of the reader is compared with its namespace. A
pair of types that is already being compared counts as compatible, so that the comparison of recursive schemas ends.
"""

from __future__ import annotations

from typing import Final

from headrace.registry.core.avro.schema import Array, Enum, Field, Fixed, Map, Named, Record, Schema, Union
from headrace.registry.core.incompatibility import Incompatibility

_PROMOTIONS: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}


def avro_incompatibilities(reader: Schema, writer: Schema) -> list[Incompatibility]:
    try:
        return _Comparison().compare(reader, writer, "/")
    except _Ambiguous as found:
        return [found.incompatibility]


class _Ambiguous(Exception):
    """A field matches two fields of the writer. Apache Avro ends the whole comparison there."""

    def __init__(self, incompatibility: Incompatibility) -> None:
        super().__init__(str(incompatibility))
        self.incompatibility = incompatibility


class _Comparison:
    def __init__(self) -> None:
        # The values keep the objects alive, because the keys contain their ids, which are unique only while they live.
        self._known: dict[tuple[int, int], list[Incompatibility]] = {}

    def compare(self, reader: Schema, writer: Schema, at: str) -> list[Incompatibility]:
        pair = (id(reader), id(writer))
        known = self._known.get(pair)
        if known is None:
            self._known[pair] = []
            known = self._known[pair] = self._compare(reader, writer, at)
        return known

    def _compare(self, reader: Schema, writer: Schema, at: str) -> list[Incompatibility]:
        if isinstance(writer, Union):
            return self._from_union(reader, writer, at)
        if isinstance(reader, Union):
            return self._to_union(reader, writer, at)
        if reader.kind != writer.kind:
            return [] if writer.kind in _PROMOTIONS.get(reader.kind, ()) else [_type_mismatch(reader, writer, at)]
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.compare(reader.items, writer.items, _below(at, "items"))
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.compare(reader.values, writer.values, _below(at, "values"))
        if isinstance(reader, Named) and isinstance(writer, Named):
            return [*_names(reader, writer, at), *self._named(reader, writer, at)]
        return []

    def _from_union(self, reader: Schema, writer: Union, at: str) -> list[Incompatibility]:
        found: list[Incompatibility] = []
        for index, branch in enumerate(writer.branches):
            faults = self.compare(reader, branch, at)
            if faults and isinstance(reader, Union):
                found.append(_missing_branch(branch, _below(at, str(index))))
            else:
                found += faults
        return found

    def _to_union(self, reader: Union, writer: Schema, at: str) -> list[Incompatibility]:
        if any(not self.compare(branch, writer, at) for branch in reader.branches):
            return []
        return [_missing_branch(writer, at)]

    def _named(self, reader: Named, writer: Named, at: str) -> list[Incompatibility]:
        if isinstance(reader, Fixed) and isinstance(writer, Fixed):
            return _sizes(reader, writer, at)
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            return _symbols(reader, writer, at)
        assert isinstance(reader, Record)
        assert isinstance(writer, Record)
        found: list[Incompatibility] = []
        for index, field in enumerate(reader.fields.values()):
            found += self._field(field, reader, writer, _below(at, f"fields/{index}"))
        return found

    def _field(self, field: Field, reader: Record, writer: Record, at: str) -> list[Incompatibility]:
        # An alias equal to the name is a second match: Apache Avro rejects it.
        matches = [writer.fields[name] for name in (field.name, *field.aliases) if name in writer.fields]
        if len(matches) > 1:
            listed = " and ".join(f"'{each.name}'" for each in matches)
            raise _Ambiguous(
                Incompatibility(
                    "READER_FIELD_AMBIGUOUS",
                    at,
                    f"The field '{field.name}' of record '{reader.name.full}' matches {listed} of the writer",
                    f"remove the alias of '{field.name}' that names an existing field",
                )
            )
        if matches:
            return self.compare(field.schema, matches[0].schema, _below(at, "type"))
        if field.has_default:
            return []
        return [
            Incompatibility(
                "READER_FIELD_MISSING_DEFAULT_VALUE",
                at,
                f"The field '{field.name}' at path '{at}' in the reader schema has no default value and is missing in "
                "the writer schema",
                f"give '{field.name}' a default, or give it an alias that names the writer's field",
            )
        ]


def _names(reader: Named, writer: Named, at: str) -> list[Incompatibility]:
    if reader.name.simple == writer.name.simple or writer.name.full in (alias.full for alias in reader.aliases):
        return []
    return [
        Incompatibility(
            "NAME_MISMATCH",
            _below(at, "name"),
            f"The name of the schema has changed: the writer has '{writer.name.full}', the reader '{reader.name.full}'",
            f"keep the name, or add the alias '{writer.name.full}' to {reader.label}",
        )
    ]


def _sizes(reader: Fixed, writer: Fixed, at: str) -> list[Incompatibility]:
    if reader.size == writer.size:
        return []
    return [
        Incompatibility(
            "FIXED_SIZE_MISMATCH",
            _below(at, "size"),
            f"The size of fixed '{reader.name.full}' is {reader.size} in the reader and {writer.size} in the writer",
            f"keep the size {writer.size}, or add a new field of another type",
        )
    ]


def _symbols(reader: Enum, writer: Enum, at: str) -> list[Incompatibility]:
    missing = [each for each in writer.symbols if each not in reader.symbols]
    if not missing or reader.default is not None:
        return []
    return [
        Incompatibility(
            "MISSING_ENUM_SYMBOLS",
            _below(at, "symbols"),
            f"The reader's enum '{reader.name.full}' lacks the writer's symbols [{', '.join(missing)}]",
            f"keep these symbols, or give '{reader.name.full}' a default symbol",
        )
    ]


def _type_mismatch(reader: Schema, writer: Schema, at: str) -> Incompatibility:
    reads = ", ".join(_PROMOTIONS.get(reader.kind, ()))
    way_out = f"keep the type {writer.label}, or use a union that contains it"
    return Incompatibility(
        "TYPE_MISMATCH",
        at,
        f"The reader's type {reader.label} at path '{at}' cannot read the writer's type {writer.label}",
        f"{way_out} ({reader.kind} reads {reader.kind}, {reads})" if reads else way_out,
    )


def _missing_branch(writer: Schema, at: str) -> Incompatibility:
    return Incompatibility(
        "MISSING_UNION_BRANCH",
        at,
        f"The reader's union at path '{at}' lacks the writer's type {writer.label}",
        f"add {writer.label} to the union",
    )


def _below(at: str, name: str) -> str:
    return f"{at.rstrip('/')}/{name}"
