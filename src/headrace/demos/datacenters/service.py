"""`bill TOPIC REGION AGGREGATE PLACE`: bills the orders of a region, as the group `billing` of one cluster."""

from __future__ import annotations

import signal
import sys
import threading

from headrace import connect

stopping = threading.Event()


def bill(bootstrap: str, topic: str, region: str, aggregate: str, place: str) -> None:
    bills = connect(aggregate).topic("bills", dict)
    reader = connect(bootstrap).topic(topic, dict).read(group="billing", idle=0.3)
    while not stopping.is_set():
        for batch in reader.batches():
            for record in batch:
                order = record.value or {}
                bills.send({"region": region, "order": order["order"], "place": place}, key=order["order"])
                reader.done(record)
            bills.flush()
            reader.commit()
    reader.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    {"bill": bill}[sys.argv[1]](*sys.argv[2:])
