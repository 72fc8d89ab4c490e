"""Tells customers what became of their orders."""

from __future__ import annotations

from headrace.api.cluster import Cluster
from shop.model import Notification, Payment


def text_of(payment: Payment) -> str:
    euros = f"{payment.cents / 100:.2f}"
    return f"order {payment.order}: {euros} paid" if payment.is_accepted else f"order {payment.order}: {euros} refused"


def run(cluster: Cluster, *, idle: float) -> int:
    """Writes a notification for each payment. The number of them."""
    payments, notifications = cluster.topic("payments", Payment), cluster.topic("notifications", Notification)
    count = 0
    for record in payments.read(group="notifications", idle=idle):
        if record.error is None and record.value is not None:
            notifications.send(Notification(record.value.order, text_of(record.value)), key=record.value.order)
            notifications.flush()
            count += 1
    return count
