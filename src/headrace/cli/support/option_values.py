"""Converts option values without loading pydantic.

typer passes every value to pydantic, whose import takes two fifths of a short command's time. Nearly all options of
`headrace` are simple: text, numbers, enumerations. This module converts valid simple values. All others, including
invalid ones, go to typer, which also has the error messages. If a release of typer works differently, this module
changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, get_args, get_origin

import typer.core

if TYPE_CHECKING:
    from typer.models import ParameterInfo

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)
_NOT_PLAIN: Final = object()


class Coercion(Protocol):
    """Typer's coercion of one parameter."""

    def coerce(self, value: object, param: Parameter, ctx: object) -> object: ...


class Parameter(Protocol):
    multiple: bool
    nargs: int


class Descriptor(Protocol):
    @property
    def annotation(self) -> object: ...
    @property
    def parameter_info(self) -> ParameterInfo: ...


class PlainParam:
    """Replaces typer's coercion of one parameter."""

    def __init__(self, descriptor: Descriptor, typers: Callable[[Descriptor], Coercion]) -> None:
        self._descriptor = descriptor
        self._typers = typers

    def coerce(self, value: object, param: Parameter, ctx: object) -> object:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        made = plain(self._descriptor.annotation, self._descriptor.parameter_info, value)
        if made is _NOT_PLAIN:
            return self._typers(self._descriptor).coerce(value, param=param, ctx=ctx)
        return made


def plain(annotation: object, info: ParameterInfo, value: object) -> object:
    """The converted value, or `_NOT_PLAIN`."""
    if info.parser is not None:
        return _NOT_PLAIN
    if get_origin(annotation) is list and isinstance(value, (list, tuple)):
        made = [plain(get_args(annotation)[0], info, item) for item in value]
        return _NOT_PLAIN if any(item is _NOT_PLAIN for item in made) else made
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return next((member for member in annotation if value in (member, member.value)), _NOT_PLAIN)
    if annotation is int or annotation is float:
        return _number(int if annotation is int else float, info, value)
    return value if type(value) is annotation and annotation in (str, bool) else _NOT_PLAIN


def _number(kind: type[int] | type[float], info: ParameterInfo, value: object) -> object:
    if isinstance(value, str) and (_WHOLE if kind is int else _DECIMAL).fullmatch(value):
        value = kind(value)
    if not isinstance(value, int | float) or type(value) is not kind:
        return _NOT_PLAIN
    within = (info.min is None or value >= info.min) and (info.max is None or value <= info.max)
    return value if within else _NOT_PLAIN


def install() -> None:
    """Replaces typer's coercion. May be called twice."""
    typers = getattr(typer.core, "build_runtime_param", None)
    if typers is not None and getattr(typers, "__module__", "") == "typer._coercion":
        typer.core.build_runtime_param = lambda descriptor: PlainParam(descriptor, typers)  # type: ignore[attr-defined,assignment,return-value]
