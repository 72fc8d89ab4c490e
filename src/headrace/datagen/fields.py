"""Values of one field. A field makes the values of many records at once, because that is several times faster.

`FIELDS` has one entry per kind of field: its name in a plan, and the class that reads its settings.
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate, count, islice
from json.encoder import encode_basestring_ascii
from random import Random
from typing import Any, ClassVar, Final, TypeAlias

from headrace.datagen.errors import BadPlan
from headrace.datagen.settings import Settings, formatter
from headrace.datagen.skew import zipf_weights

Value: TypeAlias = Any  # a JSON value
Row: TypeAlias = dict[str, Value]


@dataclass
class Rows:
    """The records that are made now: their event times, and the columns that are made already."""

    times_ms: list[int]
    random: Random
    columns: dict[str, list[Value]] = field(default_factory=dict)
    recent: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """The latest records of the topics that other topics refer to."""

    @property
    def count(self) -> int:
        return len(self.times_ms)


class Field(ABC):
    """One field of a record."""

    needs: tuple[str, ...] = ()
    """Fields of the same record that must be made before."""
    refers_to: str | None = None
    """The topic whose records must exist before."""

    @abstractmethod
    def values(self, rows: Rows) -> list[Value]: ...

    def texts(self, values: list[Value]) -> list[str]:
        """The values as JSON."""
        return [json_text(value) for value in values]


class TextField(Field):
    """A field whose values are strings."""

    def texts(self, values: list[Value]) -> list[str]:
        return list(map(encode_basestring_ascii, values))


class NumberField(Field):
    """A field whose values are numbers."""

    def texts(self, values: list[Value]) -> list[str]:
        return list(map(repr, values))


_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def json_text(value: Value) -> str:
    kind = type(value)
    # Most values are texts and numbers, which need no general encoder.
    return encode_basestring_ascii(value) if kind is str else repr(value) if kind is int else _encode(value)


class Constant(Field):
    def __init__(self, place: str, given: object) -> None:
        self._value = given
        self._text = json_text(given)

    def values(self, rows: Rows) -> list[Value]:
        return [self._value] * rows.count

    def texts(self, values: list[Value]) -> list[str]:
        return [self._text] * len(values)


class SerialNumber(Field):
    """1, 2, 3 and so on, alone or in a text such as `order-{}`."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, "format", ("format", "start"))
        self._format = formatter(place, settings.given.get("format"))
        self._numbers: Iterator[int] = count(settings.integer("start", 1))

    def go_on_after(self, number: int) -> None:
        """For a topic that has records already."""
        self._numbers = count(number + 1)

    def values(self, rows: Rows) -> list[Value]:
        numbers = list(islice(self._numbers, rows.count))
        return numbers if self._format is None else [self._format % number for number in numbers]


class Integer(NumberField):
    def __init__(self, place: str, given: object) -> None:
        low, high = Settings(place, given, "between", ("between",)).bounds()
        self._low, self._range = int(low), int(high) - int(low) + 1

    def values(self, rows: Rows) -> list[Value]:
        low, width, chance = self._low, self._range, rows.random.random
        return [low + int(chance() * width) for _ in range(rows.count)]


class Number(NumberField):
    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, "between", ("between", "decimals"))
        self._low, self._high = settings.bounds()
        self._decimals = settings.integer("decimals", 2, least=0)

    def values(self, rows: Rows) -> list[Value]:
        low, width, decimals, chance = self._low, self._high - self._low, self._decimals, rows.random.random
        return [round(low + chance() * width, decimals) for _ in range(rows.count)]


class Normal(NumberField):
    """The bell curve, cut at `min` and `max`."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, None, ("mean", "stddev", "min", "max", "decimals"))
        self._mean, self._stddev = settings.number("mean"), settings.number("stddev")
        self._min, self._max = settings.number("min", float("-inf")), settings.number("max", float("inf"))
        self._decimals = settings.integer("decimals", 2, least=0)

    def values(self, rows: Rows) -> list[Value]:
        draw, mean, stddev = rows.random.gauss, self._mean, self._stddev
        low, high, decimals = self._min, self._max, self._decimals
        return [round(min(max(draw(mean, stddev), low), high), decimals) for _ in range(rows.count)]


class Exponential(NumberField):
    """Waiting times and amounts: many small values, few large ones."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, "mean", ("mean", "max", "decimals"))
        self._rate = 1 / max(settings.number("mean"), 1e-12)
        self._max = settings.number("max", float("inf"))
        self._decimals = settings.integer("decimals", 2, least=0)

    def values(self, rows: Rows) -> list[Value]:
        draw, rate, high, decimals = rows.random.expovariate, self._rate, self._max, self._decimals
        return [round(min(draw(rate), high), decimals) for _ in range(rows.count)]


class Choice(Field):
    """One of some values, with weights if they are given as a mapping."""

    def __init__(self, place: str, given: object) -> None:
        if isinstance(given, list) and given:
            self._population, weights = given, [1.0] * len(given)
        elif isinstance(given, Mapping) and given:
            self._population, weights = list(given), [float(each) for each in given.values()]
        else:
            raise BadPlan(place, f"must be a list of values or a mapping VALUE: WEIGHT, not {given!r}")
        if min(weights) < 0 or sum(weights) <= 0:
            raise BadPlan(place, "weights must not be negative, and one must be above 0")
        self._cumulative = list(accumulate(weights))
        self._texts = {value: json_text(value) for value in self._population if isinstance(value, str)}

    def values(self, rows: Rows) -> list[Value]:
        return rows.random.choices(self._population, cum_weights=self._cumulative, k=rows.count)

    def texts(self, values: list[Value]) -> list[str]:
        known = self._texts
        return [known[value] if isinstance(value, str) else json_text(value) for value in values]


class Zipf(Field):
    """Skewed choice among `count` things: the first is the most frequent. For keys of real systems."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, "count", ("count", "skew", "format"))
        number = settings.integer("count", least=1)
        form = formatter(place, settings.given.get("format"))
        self._population: list[Value] = [n if form is None else form % n for n in range(1, number + 1)]
        self._cumulative = zipf_weights(number, settings.number("skew", 1.0))
        self._texts = list(map(json_text, self._population)) if form is not None else []

    def values(self, rows: Rows) -> list[Value]:
        return rows.random.choices(self._population, cum_weights=self._cumulative, k=rows.count)

    def texts(self, values: list[Value]) -> list[str]:
        return list(map(encode_basestring_ascii if self._texts else repr, values))


class Boolean(Field):
    def __init__(self, place: str, given: object) -> None:
        self._share = Settings(place, given, "share", ("share",)).share("share", 0.5)

    def values(self, rows: Rows) -> list[Value]:
        share, chance = self._share, rows.random.random
        return [chance() < share for _ in range(rows.count)]

    def texts(self, values: list[Value]) -> list[str]:
        return ["true" if value else "false" for value in values]


class Uuid(TextField):
    def __init__(self, place: str, given: object) -> None:
        Settings(place, given, None, ())

    def values(self, rows: Rows) -> list[Value]:
        bits = rows.random.getrandbits
        return [str(uuid.UUID(int=bits(128), version=4)) for _ in range(rows.count)]


class Time(Field):
    """The event time of the record."""

    FORMS: ClassVar = ("iso", "ms", "s")

    def __init__(self, place: str, given: object) -> None:
        self._form = Settings(place, given, "as", ("as",)).text("as", "iso")
        if self._form not in self.FORMS:
            raise BadPlan(place, f"must be one of {', '.join(self.FORMS)}, not {self._form!r}")

    def values(self, rows: Rows) -> list[Value]:
        if self._form == "ms":
            return list(rows.times_ms)
        if self._form == "s":
            return [ms // 1000 for ms in rows.times_ms]
        return list(map(_iso, rows.times_ms))


@lru_cache(16)
def _iso_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _iso(ms: int) -> str:
    """`datetime.isoformat` for every record would take most of the time of a small record."""
    return f"{_iso_second(ms // 1000)}.{ms % 1000:03d}+00:00"


_WORDS: Final = tuple(
    "river stone light house water cloud paper green music garden train window summer coffee bridge street morning "  # noqa: SIM905
    "silver letter market orange winter forest travel kitchen number story island yellow engine".split()
)


class Words(TextField):
    """A text of some words."""

    def __init__(self, place: str, given: object) -> None:
        low, high = Settings(place, given, "between", ("between",)).bounds()
        self._low, self._high = max(0, int(low)), int(high)

    def values(self, rows: Rows) -> list[Value]:
        random = rows.random
        return [" ".join(random.choices(_WORDS, k=random.randint(self._low, self._high))) for _ in range(rows.count)]


class Object(Field):
    """A record in the record."""

    def __init__(self, place: str, given: object) -> None:
        if not isinstance(given, Mapping) or not given:
            raise BadPlan(place, f"must be a mapping of fields, not {given!r}")
        self._fields = {str(name): field_from(f"{place}.{name}", each) for name, each in given.items()}
        self.needs = tuple(name for each in self._fields.values() for name in each.needs)
        self.refers_to = next((each.refers_to for each in self._fields.values() if each.refers_to), None)

    def values(self, rows: Rows) -> list[Value]:
        columns = [each.values(rows) for each in self._fields.values()]
        return [dict(zip(self._fields, row, strict=True)) for row in zip(*columns, strict=True)]


class ListOf(Field):
    """Some values of another field."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, None, ("of", "between"))
        low, high = settings.bounds()
        self._low, self._high = max(0, int(low)), int(high)
        self._of = field_from(f"{place}.of", settings.given.get("of"))
        self.needs, self.refers_to = self._of.needs, self._of.refers_to
        if self.needs:
            raise BadPlan(place, "a list cannot depend on other fields of the record")

    def values(self, rows: Rows) -> list[Value]:
        sizes = [rows.random.randint(self._low, self._high) for _ in range(rows.count)]
        flat = Rows([rows.times_ms[0]] * sum(sizes) if rows.count else [], rows.random, {}, rows.recent)
        found = iter(self._of.values(flat))
        return [list(islice(found, size)) for size in sizes]


class Nullable(Field):
    """Another field, or null."""

    def __init__(self, place: str, given: object) -> None:
        settings = Settings(place, given, None, ("share", "of"))
        self._share = settings.share("share", 0.5)
        self._of = field_from(f"{place}.of", settings.given.get("of"))
        self.needs, self.refers_to = self._of.needs, self._of.refers_to

    def values(self, rows: Rows) -> list[Value]:
        chance, share = rows.random.random, self._share
        return [value if chance() < share else None for value in self._of.values(rows)]


FIELDS: dict[str, type[Field]] = {
    "constant": Constant,
    "sequence": SerialNumber,
    "integer": Integer,
    "number": Number,
    "normal": Normal,
    "exponential": Exponential,
    "choice": Choice,
    "zipf": Zipf,
    "boolean": Boolean,
    "uuid": Uuid,
    "time": Time,
    "words": Words,
    "object": Object,
    "list": ListOf,
    "optional": Nullable,
}


def field_from(place: str, given: object) -> Field:
    """The field that a plan describes as `KIND: SETTINGS`. Raises BadPlan."""
    if not isinstance(given, Mapping) or len(given) != 1:
        raise BadPlan(place, f"must be one KIND: SETTINGS, not {given!r}; kinds: {', '.join(FIELDS)}")
    ((kind, settings),) = given.items()
    if kind not in FIELDS:
        from difflib import get_close_matches

        near = get_close_matches(str(kind), FIELDS, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise BadPlan(place, f"no kind of field {kind!r}.{meant} Kinds: {', '.join(FIELDS)}")
    return FIELDS[kind](f"{place}.{kind}", settings)  # type: ignore[call-arg]
