"""JSON Schema derived from types: values come back, evolution is checked, fields without a schema are named."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
from collections.abc import Iterator
from typing import Any

import pytest

import headrace
from headrace.api.cluster import Cluster
from headrace.api.derived_schema import json_schema
from headrace.api.errors import NoSchema, NotPossible, SchemaRefused
from headrace.testing.in_process import broker
from headrace.testing.registry import registry
from tests.support.names import unique


class Size(enum.Enum):
    SMALL = 1
    LARGE = "large"


@dataclasses.dataclass
class Line:
    item: str
    price: decimal.Decimal


@dataclasses.dataclass
class Order:
    id: str
    at: datetime.datetime
    lines: list[Line]
    tags: dict[str, int]
    size: Size = Size.SMALL
    note: str | None = None


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with (
        broker() as running,
        registry(running.bootstrap) as schemas,
        headrace.connect(running.bootstrap, registry=schemas.url) as one,
    ):
        yield one


def test_a_value_comes_back_and_its_document_is_json(cluster: Cluster) -> None:
    orders = cluster.topic(unique("orders"), Order, format="json")
    now = datetime.datetime(2026, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
    order = Order("1", now, [Line("tea", decimal.Decimal("2.50"))], {"hot": 1}, Size.LARGE)
    orders.send(order)
    orders.flush()
    (record,) = orders.records()
    assert record.value == order
    assert record.raw is not None and record.raw[0] == 0, "the wire format of the registry"
    assert json.loads(record.raw[5:])["lines"] == [{"item": "tea", "price": "2.50"}]
    assert orders.to_arrow()["id"].to_pylist() == ["1"]


def test_a_field_with_a_default_may_be_added_and_a_required_one_may_not(cluster: Cluster) -> None:
    name = unique("lines")
    cluster.topic(name, Line, format="json").send(Line("tea", decimal.Decimal(1)))
    cluster.flush()
    wider = dataclasses.make_dataclass("Line", [("item", str), ("price", decimal.Decimal), ("colour", str, "green")])
    records: list[Any] = list(cluster.topic(name, wider, format="json").records())
    assert records[0].value.colour == "green"
    narrow = dataclasses.make_dataclass("Line", [("item", str), ("price", decimal.Decimal), ("weight", int)])
    with pytest.raises(SchemaRefused, match=f"topic {name}: the registry refuses Line.*incompatible"):
        cluster.topic(name, narrow, format="json")


def test_a_subject_has_one_format(cluster: Cluster) -> None:
    name = unique("lines")
    mine = dataclasses.make_dataclass("Mine", [("item", str)])
    cluster.topic(name, mine)
    with pytest.raises(SchemaRefused, match=f"topic {name}: the registry refuses Mine"):
        cluster.topic(name, mine, format="json")


def test_a_type_may_have_itself_as_a_field() -> None:
    assert json.loads(json_schema(Node))["properties"]["next"]["oneOf"][1] == {"$ref": "#/$defs/Node"}


@dataclasses.dataclass
class Node:
    next: Node | None = None


@dataclasses.dataclass
class Odd:
    size: complex


def test_wrong_types_and_formats_are_named(cluster: Cluster) -> None:
    with pytest.raises(NoSchema, match=r"Odd\.size: complex has no JSON schema; use str"):
        cluster.topic("odd", Odd, format="json")
    with pytest.raises(NotPossible, match='format=\'xml\': choose "avro" or "json"'):
        cluster.topic("odd", Line, format="xml")
