"""`dataclass` of the standard library, made in a fifth of the time.

The library writes and compiles up to six functions for each class: half of what a broker imports until it serves was
spent on that (two hundred classes at 0.5 ms). Only `__init__` gains by it, so only that is written here; the others are
the same functions for all classes. What the library knows about a class (`fields`, `replace`, `asdict`, matching) is
kept, since it still collects the fields itself; to type checkers this *is* the library's decorator.

Options that nobody needs here (`order`, `kw_only`, `unsafe_hash`) are left out: use the library's for those.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_MISSING = dataclasses.MISSING
_set = object.__setattr__


def _no_values(_: object) -> tuple[()]:
    return ()


def _values_of(names: list[str]) -> Callable[[object], Any]:
    return attrgetter(*names) if names else _no_values


def _initializer(cls: type, *, frozen: bool) -> Callable[..., None]:
    """The one function that is written for each class: called by position and by name, it must be fast."""
    known: dict[str, Any] = {"_set": _set, "_MISSING": _MISSING}
    parameters, body = ["self"], []
    for field in dataclasses.fields(cls):
        name, parameter, value = field.name, field.name, field.name
        if field.default is not _MISSING:
            known[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
            made_here = f"_default_{name}"
        elif field.default_factory is not _MISSING:
            known[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_MISSING"
            made_here = f"_make_{name}()"
            value = f"{made_here} if {name} is _MISSING else {name}"
        elif not field.init:
            continue  # `__post_init__` sees to it
        if field.init:
            parameters.append(parameter)
        else:
            value = made_here
        body.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or " pass"), known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {field.name: field.type for field in dataclasses.fields(cls) if field.init}
    return made


def _shared_functions(cls: Any, *, frozen: bool, slots: bool, eq: bool) -> dict[str, Any]:
    fields = dataclasses.fields(cls)
    names = [field.name for field in fields]
    shown = [field.name for field in fields if field.repr]
    functions: dict[str, Any] = {}

    @recursive_repr()
    def show(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    functions["__repr__"] = show
    if eq:
        compared = _values_of([field.name for field in fields if field.compare])

        def equals(self: object, other: object) -> Any:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return compared(self) == compared(other)

        functions["__eq__"] = equals
        functions["__hash__"] = None
    if eq and frozen:
        hashing = _values_of([field.name for field in fields if (field.compare if field.hash is None else field.hash)])

        def hashed(self: object) -> int:
            return hash(hashing(self))

        functions["__hash__"] = hashed
    if frozen:

        def refuse_set(self: object, name: str, value: object) -> None:
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def refuse_delete(self: object, name: str) -> None:
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        functions |= {"__setattr__": refuse_set, "__delattr__": refuse_delete}
    if frozen and slots:
        # As in the library: what cannot be assigned to cannot be unpickled or copied by assigning.
        def state_of(self: object) -> list[Any]:
            return [getattr(self, name) for name in names]

        def set_state(self: object, state: list[Any]) -> None:
            for name, value in zip(names, state, strict=True):
                _set(self, name, value)

        functions |= {"__getstate__": state_of, "__setstate__": set_state}
    return functions


def _made(cls: type, *, frozen: bool, slots: bool, eq: bool) -> type:
    if cls.__doc__ is None:
        # The library would inspect the signature and write it down, which takes as long as all the rest.
        cls.__doc__ = cls.__name__
    own = cls.__dict__
    # A class that says how it compares is not hashable unless it says that too; the library keeps what it finds.
    kept = {name for name in own if name != "__hash__" or own[name] is not None or "__eq__" not in own}
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    functions = _shared_functions(made, frozen=frozen, slots=slots, eq=eq)
    functions["__init__"] = _initializer(made, frozen=frozen)
    for name, function in functions.items():
        if name not in kept:
            setattr(made, name, function)
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True) -> Any:
        if cls is None:
            return lambda cls: _made(cls, frozen=frozen, slots=slots, eq=eq)
        return _made(cls, frozen=frozen, slots=slots, eq=eq)
