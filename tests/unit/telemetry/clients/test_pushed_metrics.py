"""Pushed metrics: the reader of OpenTelemetry messages, and the bounds of what a broker keeps."""

from __future__ import annotations

import random
import struct
import uuid

import pytest

from headrace.telemetry.clients import pushed_metrics
from headrace.telemetry.clients.otlp import InvalidTelemetry, Point, read_points
from headrace.telemetry.clients.pushed_metrics import PushedMetrics

A, B = uuid.UUID(int=7), uuid.UUID(int=8)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def nested(number: int, *contents: bytes) -> bytes:
    data = b"".join(contents)
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(key: str, value: bytes) -> bytes:
    return nested(7, nested(1, key.encode()), nested(2, value))


def message(*metrics: bytes) -> bytes:
    """MetricsData with one resource and one scope."""
    return nested(1, nested(2, *metrics))


def gauge(name: str, value: float, *attributes: bytes) -> bytes:
    point = nested(1, varint(4 << 3 | 1), struct.pack("<d", value), *attributes)
    return nested(2, nested(1, name.encode()), nested(5, point))


def counter(name: str, value: int, temporality: int) -> bytes:
    point = nested(1, varint(6 << 3 | 1), struct.pack("<q", value))
    return nested(2, nested(1, name.encode()), nested(7, point, varint(2 << 3), varint(temporality)))


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    text, number = nested(1, b"orders"), varint(3 << 3) + varint(5)
    data = message(
        gauge("a.rate", 1.5, attribute("topic", text), attribute("node_id", number)),
        counter("b.total", 7, 1),
        counter("c.total", 8, 2),
    )
    assert list(read_points(data)) == [
        Point("a.rate", (("node_id", "5"), ("topic", "orders")), 1.5, False),
        Point("b.total", (), 7.0, True),
        Point("c.total", (), 8.0, False),
    ]


def test_damaged_messages_are_refused_and_never_crash_the_reader() -> None:
    whole = message(gauge("a.rate", 1.5, attribute("topic", nested(1, b"orders"))), counter("b.total", 7, 1))
    with pytest.raises(InvalidTelemetry, match="ends after"):
        list(read_points(whole[:-1]))
    chance = random.Random(3)
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            list(read_points(bytes(damaged)))
        except InvalidTelemetry:
            continue


def test_deltas_are_added_and_gauges_replaced() -> None:
    pushed = PushedMetrics()
    for value in (3.0, 4.0):
        points = [Point("sent", (), value, True), Point("age", (("topic", "t"),), value, False)]
        pushed.pushed(A, "shop", points, interval_ms=1000, now_ms=0)
    assert dict(pushed.rows(1)) == {
        ("sent", "shop", str(A), ""): 7.0,
        ("age", "shop", str(A), "topic=t"): 4.0,
    }


def test_a_client_that_stops_pushing_disappears() -> None:
    pushed = PushedMetrics()
    pushed.pushed(A, "slow", [Point("a", (), 1, False)], interval_ms=100_000, now_ms=0)
    pushed.pushed(B, "fast", [Point("a", (), 1, False)], interval_ms=100, now_ms=0)
    assert pushed.clients(59_999) == 2
    assert [labels[1] for labels, _ in pushed.rows(60_000)] == ["slow"]
    assert pushed.clients(300_000) == 0


def test_clients_series_and_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_metrics, "MOST_CLIENTS", 2)
    monkeypatch.setattr(pushed_metrics, "MOST_SERIES_PER_CLIENT", 3)
    monkeypatch.setattr(pushed_metrics, "MOST_SERIES", 5)
    pushed = PushedMetrics()
    points = [Point(f"{number}" * 1000, (), number, False) for number in range(4)]
    pushed.pushed(A, "x" * 1000, points, interval_ms=100, now_ms=0)
    assert len(pushed.rows(1)) == 3 and pushed.dropped_series == 1
    assert all(len(label) <= 200 for labels, _ in pushed.rows(1) for label in labels)
    pushed.pushed(B, "b", points, interval_ms=100, now_ms=1)
    assert len(pushed.rows(1)) == 5 and pushed.dropped_series == 3
    pushed.pushed(uuid.UUID(int=9), "c", points, interval_ms=100, now_ms=2)
    assert {labels[1] for labels, _ in pushed.rows(3)} == {"b", "c"}, "the client that pushed first is gone"
    assert len(pushed.rows(3)) == 5
