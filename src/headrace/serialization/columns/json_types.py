"""The Arrow columns of a JSON Schema, and the values of one record in their form.

An object with properties is a struct, an object with `additionalProperties` alone is a map. A value without a single
type becomes a string column with the value as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from headrace.serialization.columns.lists import list_of
from headrace.serialization.errors import SerializationError

Convert = Callable[[Any], Any]
VALUE: Final = "value"


class JsonColumns:
    def __init__(self, document: Any) -> None:
        self._document = document
        kind, convert = self._of(document, ())
        self.is_object = pa.types.is_struct(kind)
        self.type = kind if self.is_object else pa.struct([pa.field(VALUE, kind)])
        self._convert = convert

    def row(self, value: Any) -> Any:
        """What Arrow takes for the struct of columns. Raises SerializationError."""
        found = self._convert(value)
        return found if self.is_object else {VALUE: found}

    def _of(self, node: Any, within: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
        if not isinstance(node, Mapping):
            return pa.string(), _as_text
        reference = node.get("$ref")
        if isinstance(reference, str):
            target = self._target(reference)
            if target is None or reference in within:
                return pa.string(), _as_text
            return self._of(target, (*within, reference))
        for name in ("oneOf", "anyOf"):
            some = [each for each in node.get(name, ()) if each != {"type": "null"}]
            if len(some) == 1:
                return self._of(some[0], within)
        kind = node.get("type", "object" if "properties" in node else None)
        if isinstance(kind, list):
            named = [each for each in kind if each != "null"]
            kind = "number" if sorted(named) == ["integer", "number"] else named[0] if len(named) == 1 else None
        return self._typed(kind, node, within)

    def _typed(self, kind: Any, node: Mapping[str, Any], within: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
        if kind in _SCALARS:
            arrow, accepted = _SCALARS[kind]
            return arrow, _scalar(kind, accepted)
        if kind == "array" and isinstance(node.get("items"), Mapping):
            arrow, convert = self._of(node["items"], within)
            return list_of(arrow), _list(convert)
        if kind == "object" and node.get("properties"):
            parts = {name: self._of(each, within) for name, each in node["properties"].items()}
            return pa.struct([pa.field(name, part[0]) for name, part in parts.items()]), _object(parts)
        if kind == "object" and isinstance(node.get("additionalProperties"), Mapping):
            arrow, convert = self._of(node["additionalProperties"], within)
            return pa.map_(pa.string(), arrow), _map(convert)
        return pa.string(), _as_text

    def _target(self, reference: str) -> Any:
        """A place in the same document. Other documents stay JSON text."""
        if not reference.startswith("#/"):
            return None
        found: Any = self._document
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                return None
            found = found[name]
        return found


_SCALARS: Final[dict[str, tuple[pa.DataType, tuple[type, ...]]]] = {
    "integer": (pa.int64(), (int,)),
    "number": (pa.float64(), (int, float)),
    "string": (pa.string(), (str,)),
    "boolean": (pa.bool_(), (bool,)),
}


def _as_text(value: Any) -> Any:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _scalar(kind: str, accepted: tuple[type, ...]) -> Convert:
    def scalar(value: Any) -> Any:
        if value is None:
            return None
        if kind == "integer" and isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind != "boolean"):
            raise SerializationError(f"{value!r} is no {kind}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise SerializationError(f"{value} is beyond the range of a 64-bit integer")
        return float(value) if isinstance(value, int) and kind == "number" else value

    return scalar


def _list(convert: Convert) -> Convert:
    def listed(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise SerializationError(f"{value!r} is no array")
        return [convert(each) for each in value]

    return listed


def _map(convert: Convert) -> Convert:
    def mapped(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise SerializationError(f"{value!r} is no object")
        return [(name, convert(each)) for name, each in value.items()]

    return mapped


def _object(parts: Mapping[str, tuple[pa.DataType, Convert]]) -> Convert:
    def struct(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise SerializationError(f"{value!r} is no object")
        made = {}
        for name, (_, convert) in parts.items():
            try:
                made[name] = convert(value.get(name))
            except SerializationError as fault:
                raise SerializationError(f"{name}: {fault}") from None
        return made

    return struct
