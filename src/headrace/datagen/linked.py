"""Fields that depend on other fields or on other records: references, lookups, templates, sessions,
random walks, growing numbers."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from headrace.datagen.errors import BadPlan
from headrace.datagen.fields import FIELDS, Field, NumberField, Row, Rows, TextField, Value
from headrace.datagen.settings import Settings, formatter
from headrace.datagen.skew import skewed_index, zipf_weights

# A topic keeps so many of its latest records for references.
RECENT: Final = 10_000


# So many records are looked at until one is preferred enough.
_TRIES: Final = 20


class Reference(Field):
    """A value of an existing record of another topic: a like refers to a post. Newer records are chosen more often.

    `prefer: {campaign: {A: 1, B: 2}}` chooses records whose field `campaign` is B twice as often as records with A.
    """

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, None, ("topic", "field", "skew", "prefer"))
        self._preferred = _preferred(place, settings.given.get("prefer"))
        self.refers_to = settings.text("topic")
        self.taken = settings.text("field")
        self._place = place
        self._weights = zipf_weights(RECENT, settings.number("skew", 0.5))
        self.chosen: list[Row] = []

    def values(self, rows: Rows) -> list[Value]:
        recent = rows.recent[self.refers_to or ""]
        size, random, weights = len(recent), rows.random, self._weights

        def chosen() -> Row:
            return recent[size - 1 - skewed_index(random, weights, size)]

        try:
            if self._preferred is None:
                self.chosen = [chosen() for _ in range(rows.count)]
            else:
                self.chosen = [self._preferred_one(chosen, random) for _ in range(rows.count)]
            return [row[self.taken] for row in self.chosen]
        except KeyError as missing:
            raise BadPlan(self._place, f"topic {self.refers_to!r} has no field {missing.args[0]!r}") from None

    def _preferred_one(self, chosen: Callable[[], Row], random: Random) -> Row:
        assert self._preferred is not None
        name, weights = self._preferred
        most = max(weights.values())
        for _ in range(_TRIES):
            row = chosen()
            if random.random() * most < weights.get(row[name], most):
                break
        return row


def _preferred(place: str, given: object) -> tuple[str, Mapping[Value, float]] | None:
    if given is None:
        return None
    if isinstance(given, Mapping) and len(given) == 1:
        ((name, weights),) = given.items()
        numbers = weights.values() if isinstance(weights, Mapping) else ()
        if numbers and all(isinstance(each, int | float) and each >= 0 for each in numbers) and max(numbers) > 0:
            return str(name), weights
    raise BadPlan(place, f"prefer must be one FIELD: {{VALUE: WEIGHT, …}} with a weight above 0, not {given!r}")


class Lookup(Field):
    """Another field of the record that a reference chose."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, None, ("reference", "field"))
        self.needs = (settings.text("reference"),)
        self.taken = settings.text("field")
        self._place = place
        self.reference: Reference | None = None

    def values(self, rows: Rows) -> list[Value]:
        assert self.reference is not None
        try:
            return [row[self.taken] for row in self.reference.chosen]
        except KeyError:
            raise BadPlan(self._place, f"topic {self.reference.refers_to!r} has no field {self.taken!r}") from None


class Template(TextField):
    """A text with other fields in it: `{user}@example.com`."""

    def __init__(self, place: str, given: object) -> None:
        if not isinstance(given, str):
            raise BadPlan(place, f"must be a text with {{FIELD}} in it, not {given!r}")
        self._text = given
        try:
            self.needs = tuple({name for _, name, _, _ in string.Formatter().parse(given) if name})
        except ValueError as fault:
            raise BadPlan(place, f"{given!r} is not a template: {fault}") from None

    def values(self, rows: Rows) -> list[Value]:
        columns = [rows.columns[name] for name in self.needs]
        form = self._text.format
        if not columns:
            return [self._text.format()] * rows.count
        return [form(**dict(zip(self.needs, row, strict=True))) for row in zip(*columns, strict=True)]


class Session(TextField):
    """The session of a user: it ends after about `events` records, and the next record begins a new one."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, None, ("by", "events", "format"))
        self._by = settings.text("by")
        self.needs = (self._by,)
        self._end = 1 / max(settings.number("events", 8), 1)
        self._format = formatter(place, settings.given.get("format", "session-{}")) or "%d"
        self._number = 0
        self._open: dict[Value, str] = {}

    def values(self, rows: Rows) -> list[Value]:
        found, chance = [], rows.random.random
        for key in rows.columns[self._by]:
            session = self._open.get(key)
            if session is None:
                self._number += 1
                session = self._open[key] = self._format % self._number
            found.append(session)
            if chance() < self._end:
                del self._open[key]
        return found


class Walk(NumberField):
    """A number that moves by small steps for each key: a position, a temperature, a price."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, None, ("by", "between", "step", "decimals"))
        self._by = settings.text("by")
        self.needs = (self._by,)
        low, high = settings.bounds()
        self._low, self._high = float(low), float(high)
        self._step = settings.number("step")
        self._decimals = settings.integer("decimals", 4, least=0)
        self._at: dict[Value, float] = {}

    def values(self, rows: Rows) -> list[Value]:
        found, random, low, high = [], rows.random, self._low, self._high
        for key in rows.columns[self._by]:
            at = self._at.get(key)
            at = random.uniform(low, high) if at is None else at + random.uniform(-self._step, self._step)
            at = self._at[key] = min(max(at, low), high)
            found.append(round(at, self._decimals))
        return found


class Progress(NumberField):
    """A whole number that grows for each key up to `most`: the second at which a viewer is, the kilometres of a car."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, None, ("by", "step", "most"))
        self._by = settings.text("by")
        self.needs = (self._by,)
        low, high = settings.bounds("step")
        self._low, self._width = int(low), int(high) - int(low) + 1
        self._most = settings.number("most", float("inf"))
        self._at: dict[Value, int] = {}

    def values(self, rows: Rows) -> list[Value]:
        found, chance = [], rows.random.random
        for key in rows.columns[self._by]:
            at = self._at.get(key, 0) + self._low + int(chance() * self._width)
            at = self._at[key] = int(min(at, self._most))
            found.append(at)
        return found


FIELDS.update(
    {
        "reference": Reference, "lookup": Lookup, "template": Template, "session": Session, "walk": Walk,
        "progress": Progress,
    }
)  # fmt: skip


def in_order(place: str, fields: Mapping[str, Field]) -> list[str]:
    """The names in an order in which every field comes after the fields that it needs. Raises BadPlan."""
    order: list[str] = []
    visiting: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name in visiting:
            raise BadPlan(f"{place}.{name}", f"depends on itself: {' → '.join([*visiting, name])}")
        visiting.append(name)
        for needed in fields[name].needs:
            if needed not in fields:
                raise BadPlan(f"{place}.{name}", f"needs the field {needed!r}, which this record does not have")
            visit(needed)
        visiting.pop()
        order.append(name)

    for name, each in fields.items():
        if isinstance(each, Lookup):
            target = fields.get(each.needs[0])
            if not isinstance(target, Reference):
                raise BadPlan(f"{place}.{name}", f"{each.needs[0]!r} must be a field of the kind reference")
            each.reference = target
        visit(name)
    return order
