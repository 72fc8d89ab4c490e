"""The shop on a real broker."""

from __future__ import annotations

import pytest
from shop import notifications, orders, payments
from shop.model import Notification, Order, Payment

from headrace.api.cluster import Cluster
from headrace.api.errors import WrongValue

CENTS = [1, 50, 99, 100, 101, 1_999, 5_000, 9_950, 25_000, 49_999, 50_000, 50_001, 75_000, 99_999, 100_000]
CUSTOMERS = ["ann", "bob", "Çelik", "ops@example.org"]


@pytest.mark.parametrize("customer", CUSTOMERS)
@pytest.mark.parametrize("cents", CENTS)
def test_an_order_that_was_taken_is_in_the_topic(cluster: Cluster, cents: int, customer: str) -> None:
    order = Order("1", customer, cents)
    orders.take(cluster, order)
    (record,) = cluster.topic("orders", Order).records()
    assert record.value == order
    assert record.key == customer


@pytest.mark.parametrize("customer", ["", "ann"])
@pytest.mark.parametrize("cents", [-5, -1, 0, 100_001, 250_000, 1_000_000_000])
def test_an_order_that_is_refused_leaves_no_record(cluster: Cluster, cents: int, customer: str) -> None:
    with pytest.raises(orders.OrderRefused):
        orders.take(cluster, Order("1", customer, cents))
    assert list(cluster.topic("orders", Order).records()) == []


@pytest.mark.parametrize("count", range(1, 43))
def test_orders_of_a_customer_keep_their_order(cluster: Cluster, count: int) -> None:
    topic = cluster.topic("orders", Order)
    topic.send_all((Order(str(number), "ann", 100) for number in range(count)), key=lambda order: order.customer)
    assert [record.value.id for record in topic.records() if record.value] == [str(number) for number in range(count)]


@pytest.mark.parametrize("cents", CENTS)
@pytest.mark.parametrize("accepted", [True, False])
def test_a_notification_says_what_was_paid(cluster: Cluster, cents: int, accepted: bool) -> None:
    topic = cluster.topic("notifications", Notification)
    text = notifications.text_of(Payment("7", cents, accepted))
    topic.send(Notification("ann", text), key="7")
    topic.flush()
    (record,) = topic.records()
    assert record.value == Notification("ann", text)
    assert text.endswith("paid" if accepted else "refused")


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"[]", b"7", b'{"id": 1}', b"\xff\x00", b'{"id": "1", "customer": "a"}']
)
def test_a_damaged_order_is_reported_and_stops_no_reader(cluster: Cluster, garbage: bytes) -> None:
    cluster.topic("orders", bytes).send(garbage)
    cluster.flush()
    orders.take(cluster, Order("1", "ann", 100))
    bad, good = cluster.topic("orders", Order).records()
    assert bad.error and bad.raw == garbage
    with pytest.raises(WrongValue):
        _ = bad.value
    assert good.value == Order("1", "ann", 100)


@pytest.mark.parametrize("start", range(8))
@pytest.mark.parametrize("count", [1, 4, 8])
def test_a_range_of_offsets_is_a_table(cluster: Cluster, start: int, count: int) -> None:
    topic = cluster.topic("orders", Order)
    topic.send_all(Order(str(number), "ann", number + 1) for number in range(8))
    table = topic.to_arrow(start=start, end=start + count)
    assert table["cents"].to_pylist() == [number + 1 for number in range(8)][start : start + count]


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("partitions", [1, 2, 3, 6])
def test_topics_are_administered(cluster: Cluster, partitions: int, limit: int) -> None:
    name = f"extra-{partitions}-{limit}"
    cluster.topics.create(name, partitions, settings={"retention.ms": str(limit * 1000)})
    assert cluster.topics[name].partitions == partitions
    cluster.topics.delete(name)
    assert name not in cluster.topics


def test_orders_are_paid_once_and_customers_are_notified(cluster: Cluster) -> None:
    for number, cents in enumerate((100, 60_000, 200)):
        orders.take(cluster, Order(str(number), "ann", cents))
    assert payments.run(cluster, idle=1) == 3
    assert payments.run(cluster, idle=0.2) == 0
    assert notifications.run(cluster, idle=1) == 3
    texts = [record.value.text for record in cluster.topic("notifications", Notification).records() if record.value]
    assert texts == ["order 0: 1.00 paid", "order 1: 600.00 refused", "order 2: 2.00 paid"]
