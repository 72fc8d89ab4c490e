"""Takes orders."""

from __future__ import annotations

from headrace.api.cluster import Cluster
from shop.model import Order

LIMIT_CENTS = 100_000


class OrderRefused(ValueError):
    """The order is not taken; the message says why."""


def check(order: Order) -> None:
    """Raises OrderRefused."""
    if not order.customer:
        raise OrderRefused(f"order {order.id} has no customer")
    if not 0 < order.cents <= LIMIT_CENTS:
        raise OrderRefused(f"order {order.id}: {order.cents} cents are not between 1 and {LIMIT_CENTS}")


def take(cluster: Cluster, order: Order, guarantee: str = "at-least-once") -> None:
    """The order is in the topic when this returns. Raises OrderRefused."""
    check(order)
    orders = cluster.topic("orders", Order)
    orders.send(order, key=order.customer, guarantee=guarantee)
    orders.flush()
