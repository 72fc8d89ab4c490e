"""`invoice`: one invoice for every order, exactly once: the invoice and the offset of the order are one transaction."""

from __future__ import annotations

import signal
import sys
import threading

from headrace import connect

stopping = threading.Event()


def invoice(bootstrap: str) -> None:
    # A static member: when it comes back after a crash, it gets its partitions at once.
    cluster = connect(bootstrap, settings={"group.instance.id": "invoice"})
    orders, invoices = (cluster.topic(name, dict) for name in ("orders", "invoices"))
    with (
        cluster.transactions("invoicing") as transactions,
        orders.read(group="invoicing", guarantee="exactly-once", idle=0.5) as reader,
    ):
        while not stopping.is_set():
            for batch in reader.batches():
                with transactions.begin(reader) as transaction:
                    for record in batch:
                        order = record.value or {}
                        total = round(order["cents"] * 1.19)
                        transaction.send(invoices, {"order": order["order"], "cents": total}, key=record.key)
                        reader.done(record)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    {"invoice": invoice}[sys.argv[1]](*sys.argv[2:])
