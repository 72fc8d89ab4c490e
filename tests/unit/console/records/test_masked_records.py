"""A masked field is in no view of a record, whatever the record holds and whatever schema a person asks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.console.core.masking import MASKED, Mask
from headrace.console.pages.chosen_schema import chosen_schema
from headrace.console.protection import Rejected
from headrace.console.records import export, parquet
from headrace.console.records.decoding import Decoding
from headrace.console.records.reading import LARGEST_LISTED, _for_a_list
from headrace.console.records.search import CelFilter, TextFilter
from headrace.console.records.tail import Tail
from headrace.console.rendering import environment
from headrace.records.builder import Record
from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.schema import RegisteredSchema

SECRET = "ann@secret"
FIELD = {"email": SECRET, "town": "Ulm"}
PLAIN = json.dumps(FIELD).encode()
LATIN_1 = PLAIN.replace(b"Ulm", "Köln".encode("latin-1"))
AVRO = bytes([2 * len(SECRET)]) + SECRET.encode()


def _schema(number: int, text: object, kind: str = "AVRO") -> RegisteredSchema:
    return RegisteredSchema(number, None, f"s{number}", 1, kind, json.dumps(text))


def _record_of(field: str) -> object:
    return {"type": "record", "name": "C", "fields": [{"name": field, "type": "string"}]}


SCHEMAS = {
    1: _schema(1, _record_of("email")),
    2: _schema(2, _record_of("x")),
    3: _schema(3, "string"),
    4: _schema(4, {"type": "array", "items": "string"}),
    5: RegisteredSchema(
        5, None, "s5", 1, "JSON", "{}",
        rule_set={"domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "READ",
                                   "expr": "message[message.email] == 1"}]},
    ),
}  # fmt: skip


class Registry:
    def schema_by_id(self, number: int) -> RegisteredSchema:
        return SCHEMAS[number]


def named(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


RECORDS = {
    "JSON": Record(None, PLAIN),
    "JSON in a list": Record(None, json.dumps([FIELD, SECRET]).encode()),
    "JSON text": Record(None, named(5, json.dumps(SECRET).encode())),
    "broken JSON": Record(None, PLAIN[:-1]),
    "text": Record(None, SECRET.encode()),
    "bytes": Record(None, b"\x01\xff" + SECRET.encode()),
    "Avro": Record(None, named(1, AVRO)),
    "Avro, a bare string": Record(None, named(3, AVRO)),
    "Avro, a list of strings": Record(None, named(4, b"\x02" + AVRO + b"\0")),
    "a rule that fails": Record(None, named(5, PLAIN)),
    "no such encoding": Record(None, named(1, b"\xff\xff" + SECRET.encode())),
    "key": Record(PLAIN, None),
    "key behind a blank": Record(b" " + PLAIN, None),
    "broken key": Record(PLAIN[:-1], None),
    "key in Latin-1": Record(LATIN_1, None),
    "key with a control character": Record(PLAIN.replace(b"Ulm", b"U\x01m"), None),
    "header in Latin-1": Record(None, b"{}", (("h", LATIN_1),)),
    "key that names a schema": Record(named(1, b"\xff\xff" + SECRET.encode()), None),
    "Avro key": Record(named(1, AVRO), None),
    "header": Record(None, b"{}", (("h", PLAIN), ("i", b" " + PLAIN), ("j", PLAIN[:-1]))),
    "notes of a dead letter": Record(
        None, b"{}", (("headrace.error", SECRET.encode()), ("__connect.errors.exception.message", SECRET.encode()))
    ),
    "large": _for_a_list(Record(PLAIN[:-1] + b" " * LARGEST_LISTED + b"}", PLAIN[:-1] + b" " * LARGEST_LISTED + b"}")),
}
CHOSEN = [None, SCHEMAS[2], SCHEMAS[3]]


def rows(decoding: Decoding, record: Record) -> str:
    def url(*parts: str, **query: str) -> str:
        return "/".join(parts)

    template = environment().get_template("record_rows.html")
    return template.render(records=[decoding.record(0, record)], left_out=0, topic="t", url=url, query={})


def exported(form: str) -> Callable[[Decoding, Record], str]:
    def lines(decoding: Decoding, record: Record) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(export, "read", lambda *_: [record])
            return "".join(export.exported(cast("Any", None), decoding, {0: (0, 1)}, form, 10))

    return lines


def tailed(decoding: Decoding, record: Record) -> str:
    tail = Tail(cast("Any", None), decoding, {}, {})
    tail._waiting.append((0, record))
    return repr(tail._taken())


def found_by_text(decoding: Decoding, record: Record) -> str:
    found = [place for place in ("anywhere", "key", "value", "header")
             if TextFilter(SECRET, place, decoding).matches(0, record)]  # fmt: skip
    return SECRET if found else ""


def found_by_cel(decoding: Decoding, record: Record) -> str:
    sides = ("string(value)", "string(key)", "string(headers)", "value.email", "value.x")
    return SECRET if any(CelFilter(f"{one}.contains('{SECRET}')", decoding).matches(0, record) for one in sides) else ""


def pretty(decoding: Decoding, record: Record) -> str:
    shown = decoding.record(0, record)
    return "\n".join(one.pretty + one.error for one in (shown.key, shown.value, *(value for _, value in shown.headers)))


VIEWS: dict[str, Callable[[Decoding, Record], str]] = {
    "all facts": lambda decoding, record: repr(decoding.record(0, record)),
    "list": rows,
    "record": pretty,
    "NDJSON": exported("ndjson"),
    "CSV": exported("csv"),
    "Parquet": lambda decoding, record: repr(parquet._row(decoding.record(0, record))),
    "live tail": tailed,
    "text search": found_by_text,
    "CEL search": found_by_cel,
}


@pytest.mark.parametrize("chosen", CHOSEN, ids=["named", "chosen with another field", "chosen string"])
@pytest.mark.parametrize("topic", ["customers", "customers.dlq"])
@pytest.mark.parametrize("name", RECORDS)
def test_the_field_is_in_no_view(name: str, topic: str, chosen: RegisteredSchema | None) -> None:
    decoder = RecordDecoder(cast("Any", Registry()))
    decoding = Decoding(topic, decoder, (Mask.parse("customers:email"),), schema=chosen)
    for view, show in VIEWS.items():
        text = show(decoding, RECORDS[name])
        assert SECRET not in text and SECRET.encode().hex(" ") not in text, view
    assert not decoding.shows_bytes, "so there is no download, no copy and no hexadecimal view"
    without = "".join(show(Decoding(topic, decoder), RECORDS[name]) for show in VIEWS.values())
    assert SECRET in without or SECRET.encode().hex(" ") in without, "the views show it where nothing is masked"


def test_what_is_not_masked_is_still_shown() -> None:
    decoding = Decoding("customers", None, (Mask.parse("customers:email"),))
    assert decoding.shown(PLAIN).value == {"email": MASKED, "town": "Ulm"}
    assert decoding.shown(b"customer-7", is_key=True).value == "customer-7"
    assert decoding.shown(json.dumps([FIELD]).encode()).value == [{"email": MASKED, "town": "Ulm"}]
    assert decoding.record(0, Record(None, None, (("trace", b"17"),))).headers[0][1].value == "17"


def test_a_schema_cannot_be_chosen_where_fields_are_masked() -> None:
    def visit(topic: str) -> Any:
        settings = SimpleNamespace(masks=(Mask.parse("customers:email"),))
        return SimpleNamespace(
            query={"schema": "2"}, settings=settings, path=lambda _: topic,
            cluster=SimpleNamespace(registry=Registry()),
        )  # fmt: skip

    for topic in ("customers", "customers.dlq"):
        with pytest.raises(Rejected, match="masks fields of customers") as refused:
            asyncio.run(chosen_schema(visit(topic)))
        assert refused.value.status == 403
    assert asyncio.run(chosen_schema(visit("orders"))) is SCHEMAS[2]
