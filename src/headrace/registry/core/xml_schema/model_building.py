"""The regular expression of an element group.

The names of both schemas are known before, so a wildcard becomes the set of names that it accepts: the names of
declared elements, and for each namespace one name that stands for all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xmlschema.validators import XsdAnyElement, XsdElement, XsdGroup

from headrace.registry.core.xml_schema.content_model import (
    EMPTY,
    Model,
    Repeat,
    choice,
    leaf,
    repeat,
    sequence,
    unordered,
)

# A namespace that no schema names: what `##any` and `##other` accept there, they accept everywhere else.
_UNKNOWN: Final = "urn:headrace:any-other-namespace"
_OTHER: Final = "any-other-element"


def elements_in(group: XsdGroup) -> Iterator[XsdElement | XsdAnyElement]:
    """The elements and wildcards of a group and the groups in it."""
    for particle in group:
        if isinstance(particle, XsdGroup):
            yield from elements_in(particle)
        elif isinstance(particle, XsdElement | XsdAnyElement):
            yield particle


def declared_names(element: XsdElement) -> dict[str, XsdElement]:
    """The element and the elements that may stand in its place, by their names."""
    found = {} if element.abstract else {element.name: element}
    head = element.ref if element.ref is not None else element
    if isinstance(head, XsdElement) and head.parent is None:
        found |= {each.name: each for each in element.iter_substitutes() if not each.abstract}
    return found


def names_of(*groups: XsdGroup) -> frozenset[str]:
    """All names that tell the groups apart."""
    found: set[str] = set()
    namespaces = {"", _UNKNOWN}
    for group in groups:
        for each in elements_in(group):
            if isinstance(each, XsdElement):
                found |= declared_names(each).keys()
            else:
                named = {*each.namespace, *each.not_namespace, group.target_namespace}
                namespaces |= {one for one in named if not one.startswith("##")}
    namespaces |= {name[1:].partition("}")[0] for name in found if name.startswith("{")}
    return frozenset(found) | {_qualified(namespace, _OTHER) for namespace in namespaces}


def _qualified(namespace: str, name: str) -> str:
    return f"{{{namespace}}}{name}" if namespace else name


def readable(name: str) -> str:
    """A name in a message."""
    namespace, _, local = name.rpartition("}")
    if local != _OTHER:
        return local
    return "any other element" if not namespace or _UNKNOWN in namespace else f"any element of {namespace[1:]}"


def model_of(group: XsdGroup, names: frozenset[str]) -> Model:
    parts = [_particle(each, names) for each in group if isinstance(each, XsdGroup | XsdElement | XsdAnyElement)]
    found: Model = EMPTY
    if group.model == "choice":
        found = choice(parts)
    elif group.model == "all":
        found = unordered(_members(group, names))
    else:
        for part in reversed(parts):
            found = sequence(part, found)
    if not parts:
        return EMPTY
    return repeat(found, group.min_occurs, group.max_occurs)


def _particle(particle: XsdGroup | XsdElement | XsdAnyElement, names: frozenset[str]) -> Model:
    if isinstance(particle, XsdGroup):
        return model_of(particle, names)
    return repeat(leaf(_accepted(particle, names)), particle.min_occurs, particle.max_occurs)


def _members(group: XsdGroup, names: frozenset[str]) -> Iterator[Repeat]:
    for particle in group:
        if isinstance(particle, XsdGroup):
            yield from _members(particle, names)
        elif isinstance(particle, XsdElement | XsdAnyElement):
            yield Repeat(leaf(_accepted(particle, names)), particle.min_occurs, particle.max_occurs)


def _accepted(particle: XsdElement | XsdAnyElement, names: frozenset[str]) -> frozenset[str]:
    if isinstance(particle, XsdElement):
        return frozenset(declared_names(particle))
    return frozenset(name for name in names if particle.is_matching(name))
