"""Whether a simple type accepts all texts of another.

Built-in types are compared by XML Schema's own derivation. On top of it any text is a string, and each decimal is a
double. Restrictions are compared facet by facet; patterns only by their text. If the writer's type lists its values,
each value is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from xmlschema.validators import XsdFacet, XsdList, XsdPatternFacets, XsdSimpleType, XsdUnion

from headrace.kernel.dataclass import dataclass
from headrace.registry.core.xml_schema.source import XSD

_ANY: Final = frozenset(f"{XSD}{name}" for name in ("anySimpleType", "anyAtomicType"))
# Their white space is replaced or collapsed before the check, so they accept any text.
_TEXTS: Final = frozenset(f"{XSD}{name}" for name in ("string", "normalizedString", "token"))
_FLOATS: Final = frozenset(f"{XSD}{name}" for name in ("float", "double"))
_STRING: Final = f"{XSD}string"
_DECIMAL: Final = f"{XSD}decimal"
_BITS: Final = {"long": 64, "int": 32, "short": 16, "byte": 8}
_INTEGERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "integer": (None, None),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    **{name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in _BITS.items()},
    **{f"unsigned{name.title()}": (0, 2**bits - 1) for name, bits in _BITS.items()},
}


@dataclass(frozen=True, slots=True)
class Difference:
    kind: str
    reason: str
    way_out: str


def difference(writer: XsdSimpleType, reader: XsdSimpleType) -> Difference | None:
    """Why the reader's type does not accept all texts of the writer's; None if it does."""
    if reader is writer or _name(reader) in _ANY:
        return None
    listed = _values(writer)
    if listed is not None:
        refused = next((value for value in listed if not reader.text_is_valid(value)), None)
        return _other_texts(writer, reader) if refused is None else _value_refused(refused)
    if isinstance(writer, XsdUnion):
        return next(filter(None, (difference(each, reader) for each in writer.member_types)), None)
    if isinstance(reader, XsdUnion) and _values(reader) is None:
        found = [difference(writer, each) for each in reader.member_types]
        return None if None in found else found[0]
    if _is_list(writer) or _is_list(reader):
        return _list_difference(writer, reader)
    return _type_difference(writer, reader) or _facet_difference(writer, reader)


def _other_texts(writer: XsdSimpleType, reader: XsdSimpleType) -> Difference | None:
    """A value of any type but string has many texts: 4 is also `04` and, as a decimal, `4.0`."""
    if _name(_built_in(writer)) == _STRING:
        return None
    is_text = _name(_built_in(reader)) in _TEXTS
    are_integers = all(_name(_built_in(each)).removeprefix(XSD) in _INTEGERS for each in (writer, reader))
    return (
        (None if are_integers else _type_difference(writer, reader))
        or (_facet_difference(writer, reader) if is_text and _values(reader) is None else None)
        or _pattern_difference(writer, reader)
    )


def _type_difference(writer: XsdSimpleType, reader: XsdSimpleType) -> Difference | None:
    old, new = _built_in(writer), _built_in(reader)
    old_name, new_name = _name(old), _name(new)
    fits = (
        old.is_derived(new)
        or new_name in _TEXTS
        or (new_name in _FLOATS and old.is_derived(old.maps.types[_DECIMAL]))
        or (old_name, new_name) == (f"{XSD}float", f"{XSD}double")
        or _integer_fits(writer, reader)
    )
    if fits:
        return None
    short = [name.removeprefix(XSD) for name in (old_name, new_name)]
    return Difference(
        "TYPE_CHANGED",
        f"type {short[0]} became {short[1]}, which does not accept all its texts",
        f"keep {short[0]}, or use a type that accepts all its texts, such as string",
    )


def _integer_fits(writer: XsdSimpleType, reader: XsdSimpleType) -> bool:
    old, new = (_INTEGERS.get(_name(_built_in(each)).removeprefix(XSD)) for each in (writer, reader))
    if old is None or new is None:
        return False
    lowest, highest = _lowest(writer), _highest(writer)
    low = max((each for each in (old[0], lowest and lowest[0]) if each is not None), default=None)
    high = min((each for each in (old[1], highest and highest[0]) if each is not None), default=None)
    return (new[0] is None or (low is not None and low >= new[0])) and (
        new[1] is None or (high is not None and high <= new[1])
    )


def _facet_difference(writer: XsdSimpleType, reader: XsdSimpleType) -> Difference | None:
    allowed = _values(reader)
    if allowed is not None:
        return Difference(
            "ENUMERATION_ADDED",
            f"the values were not limited, and now only {', '.join(map(repr, allowed[:5]))} are allowed",
            "remove the enumeration",
        )
    for name, find, is_stricter in _BOUNDS:
        new, old = find(reader), find(writer)
        if new is not None and (old is None or is_stricter(new, old)):
            return Difference(
                f"{name.upper()}_NARROWED",
                f"{name.replace('_', ' ')} is {_bound(new)} and was {'not limited' if old is None else _bound(old)}",
                f"keep the old {name.replace('_', ' ')}, or allow more",
            )
    found = _pattern_difference(writer, reader)
    if found is not None:
        return found
    added = _tests(reader) - _tests(writer)
    if added:
        return Difference("ASSERTION_ADDED", f"values must fulfil {min(added)}", "remove the assertion")
    return None


def _pattern_difference(writer: XsdSimpleType, reader: XsdSimpleType) -> Difference | None:
    known = list(_patterns(writer))
    for pattern in _patterns(reader):
        if not any(old <= pattern for old in known):
            return Difference(
                "PATTERN_CHANGED",
                f"values must match {' or '.join(sorted(pattern))}",
                "remove the pattern, or keep the old one",
            )
    return None


def _list_difference(writer: XsdSimpleType, reader: XsdSimpleType) -> Difference | None:
    items = [_item_type(each) for each in (writer, reader)]
    if items[1] is None and _name(_built_in(reader)) in _TEXTS:
        return _facet_difference(writer, reader)
    if items[1] is None:
        return Difference("LIST_REMOVED", "a list became a single value", "keep the list")
    # A single value without white space is a list of one; a value with white space is not.
    found = difference(items[0] if items[0] is not None else writer, items[1])
    if found is None and items[0] is None and _name(_built_in(writer)) in _TEXTS:
        return Difference("TYPE_CHANGED", "a text became a list", "keep the text")
    return found or _facet_difference(writer, reader)


def _is_list(type_: XsdSimpleType) -> bool:
    return _item_type(type_) is not None


def _item_type(type_: XsdSimpleType) -> XsdSimpleType | None:
    for each in _ancestors(type_):
        if isinstance(each, XsdList):
            return each.item_type
    return None


def _ancestors(type_: XsdSimpleType) -> Iterator[XsdSimpleType]:
    current: object = type_
    while isinstance(current, XsdSimpleType):
        yield current
        current = current.base_type if current.base_type is not current else None


def _name(type_: XsdSimpleType) -> str:
    return type_.name or ""


def _built_in(type_: XsdSimpleType) -> XsdSimpleType:
    return next((each for each in _ancestors(type_) if _name(each).startswith(XSD)), type_)


def _own(type_: XsdSimpleType) -> Iterator[XsdSimpleType]:
    """The restrictions that schemas add to the built-in type."""
    for each in _ancestors(type_):
        if _name(each).startswith(XSD):
            return
        yield each


def _facet(type_: XsdSimpleType, name: str) -> XsdFacet | None:
    for each in _own(type_):
        found = each.facets.get(f"{XSD}{name}")
        if isinstance(found, XsdFacet):
            return found
    return None


def _values(type_: XsdSimpleType) -> list[str] | None:
    found = _facet(type_, "enumeration")
    return None if found is None else [each.get("value", "") for each in found]  # type: ignore[attr-defined]


def _patterns(type_: XsdSimpleType) -> Iterator[frozenset[str]]:
    """One set for each restriction with patterns: a value must match one of each set."""
    for each in _own(type_):
        found = each.facets.get(f"{XSD}pattern")
        if isinstance(found, XsdPatternFacets):
            yield frozenset(found.regexps)


def _tests(type_: XsdSimpleType) -> set[str]:
    found = set()
    for each in _own(type_):
        for element in each.elem.iter(f"{XSD}assertion"):
            found.add(element.get("test", ""))
    return found


Bound = tuple[float, bool]
"""A limit, and whether the limit itself is excluded."""


def _limit(inclusive: str, exclusive: str) -> Callable[[XsdSimpleType], Bound | None]:
    def find(type_: XsdSimpleType) -> Bound | None:
        for name, is_excluded in ((inclusive, False), (exclusive, True)):
            found = _facet(type_, name)
            if found is not None:
                return _comparable(found), is_excluded
        return None

    return find


def _number(*names: str) -> Callable[[XsdSimpleType], Bound | None]:
    def find(type_: XsdSimpleType) -> Bound | None:
        found = next(filter(None, (_facet(type_, name) for name in names)), None)
        return None if found is None else (_comparable(found), False)

    return find


def _comparable(facet: XsdFacet) -> float:
    """Values of one facet compare with each other, also dates and durations, which the type does not say."""
    value: Any = facet.value
    return cast("float", value)


_lowest = _limit("minInclusive", "minExclusive")
_highest = _limit("maxInclusive", "maxExclusive")


def _is_above(new: Bound, old: Bound) -> bool:
    return new[0] > old[0] or (new[0] == old[0] and new[1] and not old[1])


def _is_below(new: Bound, old: Bound) -> bool:
    return new[0] < old[0] or (new[0] == old[0] and new[1] and not old[1])


def _bound(bound: Bound) -> str:
    return f"{bound[0]}{' (excluded)' if bound[1] else ''}"


_BOUNDS: Final = (
    ("minimum", _lowest, _is_above),
    ("maximum", _highest, _is_below),
    ("shortest_length", _number("length", "minLength"), _is_above),
    ("longest_length", _number("length", "maxLength"), _is_below),
    ("total_digits", _number("totalDigits"), _is_below),
    ("fraction_digits", _number("fractionDigits"), _is_below),
)


def _value_refused(value: str) -> Difference:
    return Difference(
        "VALUE_REMOVED",
        f"the value {value!r} was allowed and is not any more",
        f"keep {value!r} in the enumeration, or allow it by another type",
    )
