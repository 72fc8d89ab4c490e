"""`revenue VERSION`: keeps the revenue of every product. Version 1 has a bug: it adds refunds."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter

from headrace import connect
from headrace.kernel.json_values import JsonObject

stopping = threading.Event()


def change(sale: JsonObject, version: int) -> int:
    cents: int = sale["cents"]
    if version == 1:
        return cents
    return -cents if sale["kind"] == "refund" else cents


def revenue(bootstrap: str, version: str) -> None:
    cluster = connect(bootstrap)
    target = cluster.topic("revenue", dict)
    totals: Counter[str] = Counter()
    reader = cluster.topic("sales", dict).read(group="revenue", idle=0.5)
    while not stopping.is_set():
        for batch in reader.batches():
            for record in batch:
                sale = record.value or {}
                totals[sale["product"]] += change(sale, int(version))
                target.send({"cents": totals[sale["product"]], "version": int(version)}, key=sale["product"])
                reader.done(record)
            target.flush()
            reader.commit()
    reader.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    {"revenue": revenue}[sys.argv[1]](*sys.argv[2:])
