"""Pays orders: each order leads to exactly one payment, also after a crash."""

from __future__ import annotations

from headrace.api.cluster import Cluster
from shop.model import Order, Payment

CREDIT_CENTS = 50_000


def payment_of(order: Order) -> Payment:
    return Payment(order.id, order.cents, order.cents <= CREDIT_CENTS)


def run(cluster: Cluster, *, idle: float) -> int:
    """Pays orders until none came for `idle` seconds. The number of payments."""
    orders, payments = cluster.topic("orders", Order), cluster.topic("payments", Payment)
    count = 0
    with (
        cluster.transactions("payments") as transactions,
        orders.read(group="payments", guarantee="exactly-once", idle=idle) as reader,
    ):
        for batch in reader.batches():
            with transactions.begin(reader) as transaction:
                for record in batch:
                    if record.error is None and record.value is not None:
                        transaction.send(payments, payment_of(record.value), key=record.value.id)
                        count += 1
                    reader.done(record)
    return count
