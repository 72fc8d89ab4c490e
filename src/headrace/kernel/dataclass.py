"""A replacement for `dataclasses.dataclass` that creates a class in a fifth of the time.

The library generates and compiles up to six functions for each class. That was half of a broker's import time (two
hundred classes at 0.5 ms). Only `__init__` is faster when compiled, and classes with the same kinds of fields share its
compiled code; all classes share the other functions. `fields`, `replace`, `asdict` and pattern matching work, because
the library still collects the fields. Type checkers see the library's decorator.

`order`, `kw_only` and `unsafe_hash` are not supported: use the library's decorator for those.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_MISSING = dataclasses.MISSING
_set = object.__setattr__


# Where the value of a field comes from. Letters, because a string of them is the key of a template, and hashing the
# members of an enumeration takes as long as the rest.
_GIVEN = "g"  # the parameter, which may have a default
_GIVEN_OR_MADE = "o"  # the parameter, or a new object for each instance
_DEFAULT = "d"  # no parameter
_MADE = "m"  # no parameter, a new object for each instance


def _no_values(_: object) -> tuple[()]:
    return ()


def _values_of(names: list[str]) -> Callable[[object], Any]:
    return attrgetter(*names) if names else _no_values


@functools.cache
def _template(kinds: str, frozen: bool, has_post_init: bool) -> CodeType:
    """The code of an `__init__` whose fields are named `f0`, `f1` and so on."""
    parameters, body = ["self"], []
    for at, kind in enumerate(kinds):
        value = {
            _GIVEN: f"f{at}",
            _GIVEN_OR_MADE: f"_make_f{at}() if f{at} is _MISSING else f{at}",
            _DEFAULT: f"_default_f{at}",
            _MADE: f"_make_f{at}()",
        }[kind]
        if kind in (_GIVEN, _GIVEN_OR_MADE):
            parameters.append(f"f{at}")
        body.append(f" _set(self, 'f{at}', {value})" if frozen else f" self.f{at} = {value}")
    if has_post_init:
        body.append(" self.__post_init__()")
    made: dict[str, Any] = {}
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or " pass"), made)
    code: CodeType = made["__init__"].__code__
    return code


def _initializer(cls: type, *, frozen: bool) -> Callable[..., None]:
    """`__init__`, the one function that each class has of its own: it is called often and must be fast. Compiling it
    takes longer than everything else, so classes with the same kinds of fields share the compiled code. Each gets a
    copy with its own names."""
    known: dict[str, Any] = {"_set": _set, "_MISSING": _MISSING}
    kinds: list[str] = []
    names: dict[str, str] = {}
    defaults: list[Any] = []
    annotations: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        name = f"f{len(kinds)}"
        if field.init:
            annotations[field.name] = field.type
        if field.default is not _MISSING:
            if field.init:
                kinds.append(_GIVEN)
                defaults.append(field.default)
            else:
                kinds.append(_DEFAULT)
                known[f"_default_{name}"] = field.default
        elif field.default_factory is not _MISSING:
            known[f"_make_{name}"] = field.default_factory
            kinds.append(_GIVEN_OR_MADE if field.init else _MADE)
            if field.init:
                defaults.append(_MISSING)
        elif not field.init:
            continue  # `__post_init__` sets it
        else:
            _check_order(cls, field.name, defaults)
            kinds.append(_GIVEN)
        names[name] = field.name
    code = _template("".join(kinds), frozen, hasattr(cls, "__post_init__"))
    own = code.replace(
        co_varnames=tuple(names.get(name, name) for name in code.co_varnames),
        co_names=tuple(names.get(name, name) for name in code.co_names),
        co_consts=tuple(names.get(one, one) if type(one) is str else one for one in code.co_consts),
    )
    made: Any = FunctionType(own, known, "__init__", tuple(defaults))
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = annotations
    initializer: Callable[..., None] = made
    return initializer


def _check_order(cls: type, name: str, defaults: list[Any]) -> None:
    """As in the library, and as in the parameters of a function."""
    if defaults:
        raise TypeError(f"non-default argument {name!r} of {cls.__name__} follows default argument")


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
        # As in the library: pickle and copy assign attributes, which a frozen class with slots refuses.
        def state_of(self: object) -> list[Any]:
            return [getattr(self, name) for name in names]

        def set_state(self: object, state: list[Any]) -> None:
            for name, value in zip(names, state, strict=True):
                _set(self, name, value)

        functions |= {"__getstate__": state_of, "__setstate__": set_state}
    return functions


def _made(cls: type, *, frozen: bool, slots: bool, eq: bool) -> type:
    if cls.__doc__ is None:
        # The library writes the signature here. Inspecting it takes as long as everything else together.
        cls.__doc__ = cls.__name__
    own = cls.__dict__
    # Python sets `__hash__` to None in a class that defines `__eq__` alone. As in the library, that None is not kept.
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
