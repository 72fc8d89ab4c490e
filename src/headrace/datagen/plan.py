"""A plan of test data, read from YAML. Every mistake is reported with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from headrace.datagen.arrivals import Arrivals, Burst
from headrace.datagen.errors import BadPlan
from headrace.datagen.fields import Field, field_from
from headrace.datagen.linked import in_order
from headrace.datagen.schemas import fields_of_schema

EXAMPLES: Final = Path(__file__).parent / "examples"
FORMATS: Final = ("json", "text", "avro", "jsonschema")
REGISTERED: Final = {"avro": "AVRO", "jsonschema": "JSON"}
"""Formats that need a schema registry, and its word for them."""
Subjects: TypeAlias = Callable[[str], tuple[str, str]]
"""The kind (AVRO, JSON) and the text of the latest schema of a subject in a registry."""
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PLAN_KEYS: Final = ("description", "seed", "rate", "start", "curve", "bursts", "topics")
_TOPIC_KEYS: Final = (
    "weight", "partitions", "replication", "configs", "key", "parts", "value", "schema", "subject", "format",
    "headers", "late", "duplicates", "malformed", "tombstones", "producer",
)  # fmt: skip


@dataclass
class TopicPlan:
    name: str
    fields: dict[str, Field]
    written: list[str]
    """The fields that are in the record. The others are parts of templates and keys."""
    order: list[str]
    """The fields in the order in which they are made."""
    key: str | None
    """A field, or a template with fields in it."""
    weight: float = 1.0
    partitions: int = 1
    replication: int = 1
    configs: dict[str, str] = field(default_factory=dict)
    form: str = "json"
    schema: str | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    late: float = 0.0
    late_by_s: float = 0.0
    duplicates: float = 0.0
    malformed: float = 0.0
    tombstones: float = 0.0
    producer: str = ""
    """Topics with different names here have different producers, each with its own connections."""

    @property
    def refers_to(self) -> set[str]:
        return {each.refers_to for each in self.fields.values() if each.refers_to}


@dataclass
class Plan:
    name: str
    description: str
    seed: int
    arrivals: Arrivals
    start_ms: int | None
    """Event time of the first record; None means the present."""
    topics: list[TopicPlan]


def seconds(text: object, place: str = "duration") -> float:
    """`500ms`, `30s`, `2m`, `1h`, `7d`, or a number of seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
        return float(text)
    found = _DURATION.fullmatch(str(text).strip())
    if found is None:
        raise BadPlan(place, f"must be a duration such as 500ms, 30s, 2m, 1h or 7d, not {text!r}")
    return float(found[1]) * _UNITS[found[2] or "s"]


def shipped() -> dict[str, Path]:
    """The plans that come with Headrace, by name."""
    return {path.stem: path for path in sorted(EXAMPLES.glob("*.yml"))}


def load(path: Path, subjects: Subjects | None = None) -> Plan:
    """Reads a plan. `subjects` asks a schema registry. Raises BadPlan, or OSError if there is no such file."""
    try:
        document = yaml.safe_load(path.read_text())
    except yaml.YAMLError as fault:
        raise BadPlan(str(path), f"is not YAML: {' '.join(str(fault).split())}") from None
    except UnicodeDecodeError as fault:
        raise BadPlan(str(path), f"is not text in UTF-8: {fault}") from None
    try:
        return read(document, path.stem, path.parent, subjects)
    except BadPlan as fault:
        raise BadPlan(str(path), str(fault)) from None


def read(document: object, name: str, folder: Path | None = None, subjects: Subjects | None = None) -> Plan:
    """The plan of a YAML document. `folder` is where the schema files are."""
    content = _mapping("", document, _PLAN_KEYS)
    topics = content.get("topics")
    if not isinstance(topics, Mapping) or not topics:
        raise BadPlan("topics", "must name at least one topic")
    plans = [_topic(str(topic), given, folder, subjects) for topic, given in topics.items()]
    _check_references(plans)
    rate = content.get("rate", 1000)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or rate <= 0:
        raise BadPlan("rate", f"must be a number of records per second above 0, not {rate!r}")
    curve = _mapping("curve", content.get("curve") or {}, ("night", "period"))
    bursts = [
        _mapping(f"bursts[{n}]", each, ("at", "for", "times")) for n, each in enumerate(content.get("bursts") or [])
    ]
    seed = content.get("seed", 1)
    if not isinstance(seed, int):
        raise BadPlan("seed", f"must be a whole number, not {seed!r}")
    return Plan(
        name,
        str(content.get("description") or ""),
        seed,
        Arrivals(
            float(rate),
            _share("curve.night", curve.get("night", 1.0)),
            max(seconds(curve.get("period", "1d"), "curve.period"), 0.001),
            tuple(
                Burst(
                    seconds(each.get("at", 0), f"bursts[{n}].at"),
                    seconds(each.get("for", 10), f"bursts[{n}].for"),
                    float(each.get("times", 10)),
                )
                for n, each in enumerate(bursts)
            ),
        ),
        _start(content.get("start")),
        plans,
    )


def _topic(name: str, given: object, folder: Path | None, subjects: Subjects | None) -> TopicPlan:
    place = f"topics.{name}"
    content = _mapping(place, given, _TOPIC_KEYS)
    usual_form, schema = _schema(place, content, folder, subjects)
    written = _fields(place, content, schema)
    fields = _with_parts(place, content, written)
    key = content.get("key")
    if key is not None and not isinstance(key, str):
        raise BadPlan(f"{place}.key", f"must be a field or a template such as '{{user}}-{{day}}', not {key!r}")
    if key is not None and "{" not in key and key not in fields:
        raise BadPlan(f"{place}.key", f"the record has no field {key!r}; fields: {', '.join(fields)}")
    form = str(content.get("format", usual_form))
    if form not in FORMATS:
        raise BadPlan(f"{place}.format", f"must be one of {', '.join(FORMATS)}, not {form!r}")
    if form == "text" and len(written) != 1:
        raise BadPlan(f"{place}.format", f"text needs exactly one field, not {len(written)}")
    if form in REGISTERED and schema is None:
        raise BadPlan(f"{place}.format", f"{form} needs a schema: FILE or a subject: NAME")
    late = _mapping(f"{place}.late", content.get("late") or {}, ("share", "by"))
    headers = _mapping(f"{place}.headers", content.get("headers") or {}, None)
    return TopicPlan(
        name,
        fields,
        list(written),
        in_order(f"{place}.value", fields),
        key,
        weight=_positive(f"{place}.weight", content.get("weight", 1)),
        partitions=int(_positive(f"{place}.partitions", content.get("partitions", 1))),
        replication=int(_positive(f"{place}.replication", content.get("replication", 1))),
        configs={
            str(config): _config_text(value)
            for config, value in _mapping(f"{place}.configs", content.get("configs") or {}, None).items()
        },
        form=form,
        schema=schema,
        headers=tuple((str(header), str(value).encode()) for header, value in headers.items()),
        late=_share(f"{place}.late.share", late.get("share", 0)),
        late_by_s=seconds(late.get("by", 30), f"{place}.late.by"),
        duplicates=_share(f"{place}.duplicates", content.get("duplicates", 0)),
        malformed=_share(f"{place}.malformed", content.get("malformed", 0)),
        tombstones=_share(f"{place}.tombstones", content.get("tombstones", 0)),
        producer=str(content.get("producer") or ""),
    )


def _schema(
    place: str, content: Mapping[str, Any], folder: Path | None, subjects: Subjects | None
) -> tuple[str, str | None]:
    """The usual format of the topic, and the text of its schema: a file, or the latest version of a subject."""
    file, subject = content.get("schema"), content.get("subject")
    if file is not None and subject is not None:
        raise BadPlan(place, "schema and subject are two sources of the same fields: leave out one of them")
    if subject is not None:
        if subjects is None:
            raise BadPlan(f"{place}.subject", f"subject {subject!r} is in a schema registry: --registry URL")
        kind, text = subjects(str(subject))
        forms = {word: form for form, word in REGISTERED.items()}
        if kind not in forms:
            raise BadPlan(f"{place}.subject", f"subject {subject!r} has a {kind} schema; possible: {', '.join(forms)}")
        return forms[kind], text
    if file is None:
        return "json", None
    path = (folder or Path()) / str(file)
    try:
        return "json", path.read_text()
    except OSError as fault:
        raise BadPlan(f"{place}.schema", f"cannot read {path}: {fault.strerror}") from None


def _fields(place: str, content: Mapping[str, Any], schema: str | None) -> dict[str, Field]:
    """The fields of `value`, and of the schema where `value` does not describe them."""
    value = _mapping(f"{place}.value", content.get("value") or {}, None)
    named = {str(name): field_from(f"{place}.value.{name}", each) for name, each in value.items()}
    if schema is None:
        if not named:
            raise BadPlan(
                f"{place}.value",
                "must describe at least one field, or the topic needs a schema: FILE or a subject: NAME",
            )
        return named
    derived = fields_of_schema(f"{place}.{'schema' if 'schema' in content else 'subject'}", schema)
    unknown = [name for name in named if name not in derived]
    if unknown:
        raise BadPlan(f"{place}.value.{unknown[0]}", f"the schema has no field {unknown[0]!r}")
    return {**derived, **named}


def _with_parts(place: str, content: Mapping[str, Any], written: dict[str, Field]) -> dict[str, Field]:
    """The fields of the record, and fields that only templates and keys use."""
    parts = _mapping(f"{place}.parts", content.get("parts") or {}, None)
    twice = [str(name) for name in parts if str(name) in written]
    if twice:
        raise BadPlan(f"{place}.parts.{twice[0]}", "is a field of the record already: choose another name")
    return {**written, **{str(name): field_from(f"{place}.parts.{name}", each) for name, each in parts.items()}}


def _check_references(plans: list[TopicPlan]) -> None:
    known = {plan.name: plan for plan in plans}
    for plan in plans:
        for topic in plan.refers_to:
            if topic not in known:
                near = get_close_matches(topic, known, 1)
                raise BadPlan(
                    f"topics.{plan.name}", f"refers to topic {topic!r}, which is not in the plan"
                    + (f"; did you mean {near[0]!r}?" if near else "")
                )  # fmt: skip
            if topic == plan.name or plan.name in known[topic].refers_to:
                raise BadPlan(f"topics.{plan.name}", f"it and topic {topic!r} refer to each other: neither can begin")


def _mapping(place: str, given: object, known: tuple[str, ...] | None) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise BadPlan(place, f"must be a mapping, not {given!r}")
    for name in given:
        if known is not None and name not in known:
            near = get_close_matches(str(name), known, 1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise BadPlan(place, f"no setting {name!r}.{meant} Known: {', '.join(known)}")
    return given


def _share(place: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadPlan(place, f"must be between 0 and 1, not {value!r}")
    return float(value)


def _positive(place: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise BadPlan(place, f"must be a number above 0, not {value!r}")
    return float(value)


def _config_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _start(given: object) -> int | None:
    if given is None or given == "now":
        return None
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    except ValueError:
        raise BadPlan("start", f"must be now or a time such as 2026-01-31T08:00:00Z, not {given!r}") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
