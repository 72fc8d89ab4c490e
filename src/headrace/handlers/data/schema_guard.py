"""Rejects batches whose records carry no schema id of their topic's subject (`value.schema.validation`).

The broker learns ids from the schema registry, on a thread, and remembers them: an id never changes its schema. Only a
batch with an id that is not known yet waits for the registry (docs/adr/0018). A broker whose topics do not use
validation tests one attribute for each request: `if schemas.topics`.

Owned by the event loop. The thread only asks the registry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.config.keys.headrace import SUBJECT_STRATEGIES
from headrace.config.topic_config import canonical_topic_overrides
from headrace.handlers.data.transaction_guard import Place
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.records.reader import iter_records
from headrace.records.validation import RecordsRefused, single_batch
from headrace.wire.produce import ProduceRequest

_KEY_HEADER: Final = "__key_schema_id"
_VALUE_HEADER: Final = "__value_schema_id"
_TOPIC_RESOURCE: Final = "topic"
_SETTINGS: Final = (
    (True, "key.schema.validation", "key.subject.name.strategy"),
    (False, "value.schema.validation", "value.subject.name.strategy"),
)
# A limit for the memory of a broker whose producers register schemas without end.
_MOST_SCHEMAS: Final = 100_000


@dataclass(frozen=True, slots=True)
class SchemaRule:
    """One validated part of the records of a topic: its keys or its values."""

    topic: str
    is_key: bool
    strategy: str


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """`subjects`: where the id is registered; `record_name` is for the record strategies."""

    subjects: frozenset[str]
    record_name: str | None

    def belongs_to(self, rule: SchemaRule) -> bool:
        if rule.strategy == "topic":
            return f"{rule.topic}-{'key' if rule.is_key else 'value'}" in self.subjects
        if not self.record_name:
            return False
        name = self.record_name if rule.strategy == "record" else f"{rule.topic}-{self.record_name}"
        return name in self.subjects


class SchemaSource(Protocol):
    """A schema registry. It may block: the guard calls it on a thread."""

    def schema(self, named: int | bytes, *, with_record_name: bool) -> KnownSchema | None:
        """None for an unknown id or GUID. Raises Fault if the registry does not answer."""


@dataclass(frozen=True, slots=True)
class SchemaUse:
    """A record names a schema, in the request's place and under a rule."""

    place: Place
    record: int
    rule: SchemaRule
    named: int | bytes


class SchemaGuard:
    def __init__(self, view: ClusterView, source: SchemaSource | None) -> None:
        self._source = source
        self._known: dict[tuple[int | bytes, bool], KnownSchema] = {}
        self._thread = ThreadPoolExecutor(1, "schema-registry")
        self.topics: dict[str | bytes, tuple[SchemaRule, ...]] = {}
        """The rules of each validated topic, by its name and by its id."""
        self._follow(view.current, view.current)
        view.subscribe(self._follow)

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        if old is not new and old.configs is new.configs and old.topics is new.topics:
            return
        found: dict[str | bytes, tuple[SchemaRule, ...]] = {}
        for (kind, name), overrides in new.configs.items():
            rules = _rules(name, overrides) if kind == _TOPIC_RESOURCE and name in new.topics else ()
            if rules:
                found[name] = found[new.topics[name].id.bytes] = rules
        self.topics = found

    def unknown(self, request: ProduceRequest, refused: dict[Place, Fault]) -> list[SchemaUse]:
        """Uses of schemas that the registry must be asked about. Adds batches that are certainly wrong to `refused`."""
        unknown: list[SchemaUse] = []
        for topic, partitions in request.topics:
            rules = self.topics.get(topic)
            if rules is None:
                continue
            for index, records in partitions:
                place = (topic, index)
                if records is None or place in refused:
                    continue
                try:
                    for use in self._uses(place, records, rules):
                        if not self._is_known(use):
                            unknown.append(use)
                except Fault as fault:
                    refused[place] = fault
        return [use for use in unknown if use.place not in refused]

    def _uses(self, place: Place, records: memoryview, rules: tuple[SchemaRule, ...]) -> Iterator[SchemaUse]:
        """Raises RecordsRefused for a record without a schema id."""
        if self._source is None:
            raise Refused(
                ErrorCode.invalid_config,
                f"topic {rules[0].topic} validates schemas, but the broker has no schema.registry.url",
            )
        for number, record in enumerate(iter_records(single_batch(records))):
            for rule in rules:
                data = record.key if rule.is_key else record.value
                if data is None:
                    continue
                wanted = _KEY_HEADER if rule.is_key else _VALUE_HEADER
                header = next((value for name, value in record.headers if name == wanted and value), None)
                named = _schema_named(header if header is not None else data[:5], is_header=header is not None)
                if named is None:
                    raise RecordsRefused(
                        ErrorCode.invalid_record,
                        f"record {number}: the {_part(rule)} names no schema: it must begin with byte 0 and the id",
                        [number],
                    )
                yield SchemaUse(place, number, rule, named)

    def _is_known(self, use: SchemaUse) -> bool:
        found = self._known.get((use.named, use.rule.strategy != "topic"))
        return found is not None and found.belongs_to(use.rule)

    async def ask(self, uses: list[SchemaUse]) -> dict[Place, Fault]:
        """Asks the registry for the schemas that are not known yet, each once. Returns the batches to refuse."""
        refused: dict[Place, Fault] = {}
        loop = asyncio.get_running_loop()
        fresh: set[tuple[int | bytes, bool]] = set()
        for use in uses:
            if use.place in refused:
                continue
            key = (use.named, use.rule.strategy != "topic")
            try:
                # An id can be registered in a further subject, so a known id of other subjects is asked for again.
                if not self._is_known(use) and key not in fresh:
                    fresh.add(key)
                    found = await loop.run_in_executor(self._thread, self._asked, *key)
                    if found is not None:
                        if len(self._known) >= _MOST_SCHEMAS:
                            self._known.clear()
                        self._known[key] = found
                if not self._is_known(use):
                    refused[use.place] = _unknown(use)
            except Fault as fault:
                refused[use.place] = fault
        return refused

    def _asked(self, named: int | bytes, with_record_name: bool) -> KnownSchema | None:
        assert self._source is not None
        return self._source.schema(named, with_record_name=with_record_name)


def _rules(topic: str, overrides: Mapping[str, str]) -> tuple[SchemaRule, ...]:
    settings = canonical_topic_overrides(overrides)
    return tuple(
        SchemaRule(topic, is_key, SUBJECT_STRATEGIES[settings.get(strategy, "topic")])
        for is_key, validation, strategy in _SETTINGS
        if settings.get(validation, "").lower() == "true"
    )


def _schema_named(data: bytes, *, is_header: bool) -> int | bytes | None:
    """The id, or the 16 bytes of a GUID, which only a header can have."""
    if len(data) >= 5 and data[0] == 0:
        return int.from_bytes(data[1:5], "big")
    return bytes(data[1:17]) if is_header and len(data) >= 17 and data[0] == 1 else None


def _part(rule: SchemaRule) -> str:
    return "key" if rule.is_key else "value"


def _unknown(use: SchemaUse) -> Fault:
    named = f"schema id {use.named}" if isinstance(use.named, int) else f"schema GUID {use.named.hex()}"
    subject = {
        "topic": f"subject {use.rule.topic}-{_part(use.rule)}",
        "record": "the subject of its record name",
        "topic-record": f"a subject of topic {use.rule.topic} and its record name",
    }[use.rule.strategy]
    return RecordsRefused(
        ErrorCode.invalid_record,
        f"record {use.record}: the {_part(use.rule)} has {named}, which is not registered in {subject}",
        [use.record],
    )
