"""The settings of one field of a plan, checked as they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.datagen.errors import BadPlan


class Settings:
    """The settings of one field, with the place in the plan for messages."""

    def __init__(self, place: str, given: object, shorthand: str | None, known: Sequence[str]) -> None:
        self.place = place
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            if shorthand is None:
                raise BadPlan(place, f"must be a mapping of {', '.join(known)}, not {given!r}")
            given = {shorthand: given}
        unknown = [name for name in given if name not in known]
        if unknown:
            raise BadPlan(place, f"no setting {unknown[0]!r}; known: {', '.join(known)}")
        self.given = given

    def number(self, name: str, default: float | None = None) -> float:
        value = self.given.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadPlan(self.place, f"{name} must be a number, not {value!r}")
        return float(value)

    def integer(self, name: str, default: int | None = None, *, least: int | None = None) -> int:
        value = self.given.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadPlan(self.place, f"{name} must be a whole number, not {value!r}")
        if least is not None and value < least:
            raise BadPlan(self.place, f"{name} must be at least {least}, not {value}")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self.given.get(name, default)
        if not isinstance(value, str):
            raise BadPlan(self.place, f"{name} must be text, not {value!r}")
        return value

    def share(self, name: str, default: float | None = None) -> float:
        value = self.number(name, default)
        if not 0 <= value <= 1:
            raise BadPlan(self.place, f"{name} must be between 0 and 1, not {value}")
        return value

    def bounds(self, name: str = "between") -> tuple[float, float]:
        value = self.given.get(name)
        if not isinstance(value, list) or len(value) != 2 or not all(isinstance(each, int | float) for each in value):
            raise BadPlan(self.place, f"{name} must be two numbers [LEAST, MOST], not {value!r}")
        if value[0] > value[1]:
            raise BadPlan(self.place, f"{name}: {value[0]} is larger than {value[1]}")
        return value[0], value[1]


def formatter(place: str, text: object) -> str | None:
    """`order-{}` as a %-template, because that is the fastest way to put one number into a text."""
    if text is None:
        return None
    if not isinstance(text, str) or text.count("{}") != 1:
        raise BadPlan(place, f"format must be a text with one {{}} for the number, not {text!r}")
    return text.replace("%", "%%").replace("{}", "%d")
