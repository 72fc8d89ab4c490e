"""Types that describe the values of a topic: dataclasses, Pydantic models, msgspec structs and TypedDicts.

Each kind is read as its fields. `plain` makes builtins of a value (what Avro and JSON write), `built` makes the value
of builtins. Libraries are found by the type itself, so none of them has to be installed.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import types
import typing
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from headrace.api.errors import WrongValue

NO_DEFAULT: Final = object()
_NONE = type(None)


class Field(NamedTuple):
    name: str
    hint: object
    default: object = NO_DEFAULT


def is_record_type(hint: object) -> bool:
    return isinstance(hint, type) and (
        dataclasses.is_dataclass(hint) or _is_pydantic(hint) or _is_msgspec(hint) or typing.is_typeddict(hint)
    )


def _is_pydantic(hint: type) -> bool:
    return hasattr(hint, "model_fields") and hasattr(hint, "model_validate")


def _is_msgspec(hint: type) -> bool:
    return hasattr(hint, "__struct_fields__")


@functools.cache
def fields_of(hint: type) -> tuple[Field, ...]:
    """The fields of a record type, in order. Kept, because to read annotations takes longer than to build a value."""
    return tuple(_fields(hint))


def _fields(hint: type) -> list[Field]:
    hints = typing.get_type_hints(hint)
    if dataclasses.is_dataclass(hint):
        return [Field(one.name, hints[one.name], _dataclass_default(one)) for one in dataclasses.fields(hint)]
    if _is_msgspec(hint):
        names: tuple[str, ...] = hint.__struct_fields__  # type: ignore[attr-defined]
        defaults: tuple[object, ...] = hint.__struct_defaults__  # type: ignore[attr-defined]
        given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        return [Field(name, hints[name], _simple(given.get(name, NO_DEFAULT))) for name in names]
    if _is_pydantic(hint):
        models = hint.model_fields  # type: ignore[attr-defined]
        return [
            Field(name, hints[name], NO_DEFAULT if one.is_required() else _simple(one.default))
            for name, one in models.items()
        ]
    return [Field(name, one) for name, one in hints.items()]


def _dataclass_default(field: dataclasses.Field[object]) -> object:
    return NO_DEFAULT if field.default is dataclasses.MISSING else _simple(field.default)


def _simple(default: object) -> object:
    """Only simple defaults become part of a schema; a factory is not one."""
    return default if default is None or isinstance(default, str | int | float | bool) else NO_DEFAULT


def optional_of(hint: object) -> object | None:
    """`T` of `T | None`; None for another type."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [one for one in typing.get_args(hint) if one is not _NONE]
        if len(inner) == 1 and _NONE in typing.get_args(hint):
            return cast("object", inner[0])
    return None


def plain(value: object) -> object:
    """The value with mappings, lists and scalars only."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    kind = type(value)
    if _is_pydantic(kind):
        return {name: plain(getattr(value, name)) for name in kind.model_fields}  # type: ignore[attr-defined]
    if _is_msgspec(kind):
        return {name: plain(getattr(value, name)) for name in kind.__struct_fields__}  # type: ignore[attr-defined]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def built(hint: object, value: object) -> object:
    """A value of the type, of builtins. Raises WrongValue."""
    inner = optional_of(hint)
    if inner is not None:
        return None if value is None else built(inner, value)
    if is_record_type(hint):
        return _built_record(cast("type", hint), value)
    origin = typing.get_origin(hint)
    if origin in (list, tuple) and isinstance(value, list | tuple):
        of = (typing.get_args(hint) or (object,))[0]
        items = [built(of, one) for one in value]
        return items if origin is list else tuple(items)
    if origin is dict and isinstance(value, Mapping):
        of = (typing.get_args(hint) or (str, object))[1]
        return {name: built(of, one) for name, one in value.items()}
    try:
        return _built_scalar(hint, value)
    except (ValueError, ArithmeticError) as error:
        raise WrongValue(f"{value!r} is no {getattr(hint, '__name__', hint)}: {error}") from None


def _built_record(hint: type, value: object) -> object:
    if not isinstance(value, Mapping):
        raise WrongValue(f"{value!r} is no {hint.__name__}: it must have fields")
    if _is_pydantic(hint):
        try:
            return cast("object", hint.model_validate(value))  # type: ignore[attr-defined]
        except ValueError as error:
            raise WrongValue(f"no {hint.__name__}: {error}") from None
    made = {}
    for field in fields_of(hint):
        if field.name in value:
            made[field.name] = built(field.hint, value[field.name])
        elif field.default is NO_DEFAULT and _is_needed(hint, field.name):
            raise WrongValue(f"no {hint.__name__}: field {field.name} is missing")
    return dict(made) if typing.is_typeddict(hint) else hint(**made)


@functools.cache
def _is_needed(hint: type, name: str) -> bool:
    if typing.is_typeddict(hint):
        return name in hint.__required_keys__  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(hint):
        field = next(one for one in dataclasses.fields(hint) if one.name == name)
        return field.default_factory is dataclasses.MISSING
    return False


def _built_scalar(hint: object, value: object) -> object:
    if isinstance(hint, type):
        if issubclass(hint, enum.Enum):
            return hint(value)
        if issubclass(hint, datetime.datetime) and isinstance(value, str):
            return datetime.datetime.fromisoformat(value)
        if hint is datetime.date and isinstance(value, str):
            return datetime.date.fromisoformat(value)
        if hint is decimal.Decimal and isinstance(value, str | int):
            return decimal.Decimal(value)
        if hint is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if hint in (str, int, float, bool, bytes) and type(value) is not hint:
            raise ValueError(f"it is {type(value).__name__}")
    return value
