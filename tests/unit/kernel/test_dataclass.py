"""Classes with Headrace's decorator behave like classes with the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, ClassVar

import pytest

from headrace.kernel.dataclass import dataclass

OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (True, False)
]


def _made_by(decorator: Callable[..., Any], options: dict[str, bool]) -> Any:
    @decorator(**options)
    class Place:
        kind: ClassVar[str] = "place"

        name: str
        size: int = 3
        tags: list[str] = field(default_factory=list, compare=False, repr=False)
        origin: str = field(default="here", init=False)

        def grown(self) -> Any:
            return replace(self, size=self.size + 1)  # type: ignore[type-var]

    return Place


def _behaviour(place: Any) -> dict[str, Any]:
    one, same, other = place("a"), place("a", 3, ["x"]), place("a", size=4)
    seen = {
        "repr": repr(one).rsplit(".", 1)[-1],
        "equal": (one == one, one == same, one == other, one == "a"),
        "values": (one.name, one.size, one.tags, one.origin, same.tags, one.tags is place("a").tags),
        "kind": place.kind,
        "fields": [spec.name for spec in dataclasses.fields(place)],
        "asdict": dataclasses.asdict(same),
        "grown": one.grown().size,
        "match": place.__match_args__,
        "has_dict": hasattr(one, "__dict__"),
        "copied": copy.copy(other).size,
    }
    for name, action in {
        "assigned": lambda: setattr(one, "size", 9),
        "unknown": lambda: setattr(one, "colour", "red"),
        "deleted": lambda: delattr(one, "name"),
        # Both objects must be alive: a new object may reuse the address of a dead one and then has its hash.
        "hashed": lambda: len(set(map(hash, [place("a"), place("a", 3, ["x"])]))) == 1,
        "missing": place,
        "too many": lambda: place(1, 2, 3, 4),
    }.items():
        try:
            seen[name] = action()
        except (TypeError, AttributeError) as error:
            # For an unknown attribute of a frozen class with slots the library raises a TypeError by mistake.
            seen[name] = "refused" if name == "unknown" else type(error)
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_decorator_behaves_like_the_standard_library(options: dict[str, bool]) -> None:
    assert _behaviour(_made_by(dataclass, options)) == _behaviour(_made_by(dataclasses.dataclass, options))


@dataclass(frozen=True)
class Named:
    name: str


@dataclass(frozen=True, slots=True)
class Sized(Named):
    size: int = 1
    doubled: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", self.size * 2)


@dataclass
class Own:
    """Says how it compares, hashes and shows itself."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass
class Empty:
    pass


def test_subclass_has_inherited_fields_and_runs_post_init_last() -> None:
    assert (Sized("a", 4).name, Sized("a", 4).doubled) == ("a", 8)
    assert Sized("a") == Sized("a", 1) != Named("a")
    assert pickle.loads(pickle.dumps(Sized("a", 4))).doubled == 8
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        Sized("a").name = "b"


def test_methods_defined_in_the_class_are_kept() -> None:
    assert {Own("A"), Own("a")} == {Own("a")}
    assert repr(Own("A")) == "<A>"
    assert Own.__doc__ == "Says how it compares, hashes and shows itself."


def test_a_class_without_fields() -> None:
    assert Empty() == Empty()
    assert repr(Empty()) == "Empty()"


def test_repr_of_a_self_referencing_object() -> None:
    @dataclass
    class Node:
        next: object = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")
