"""A librdkafka group member in a process of its own: group_reader.py SETTINGS TOPIC. SETTINGS are JSON. It prints:

    read PARTITION OFFSET VALUE
    alive       librdkafka's main thread works: it emits statistics every second, with or without brokers
    tick        this process has run for another second

Ticks without "alive" show a deadlocked client (`supervised_reader`). The program stops at the end of its input.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Final

from confluent_kafka import Consumer

SECOND_MS: Final = 1000
_telling = threading.Lock()


def tell(line: str) -> None:
    with _telling:
        print(line, flush=True)


def read(settings: dict[str, str | int], topic: str, ended: threading.Event) -> None:
    consumer = Consumer(
        {
            **settings,
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            "auto.commit.interval.ms": 500,
            "log_level": 0,
            "socket.timeout.ms": 6000,
            "topic.metadata.refresh.interval.ms": 1000,
            "statistics.interval.ms": SECOND_MS,
            "stats_cb": lambda _: tell("alive"),
        }
    )
    consumer.subscribe([topic])
    try:
        while not ended.is_set():
            found = [one for one in consumer.consume(500, timeout=0.2) if one.error() is None]
            if found:
                tell("\n".join(f"read {one.partition()} {one.offset()} {one.value().decode()}" for one in found))
    finally:
        consumer.close()


def tick(ended: threading.Event) -> None:
    while not ended.wait(SECOND_MS / 1000):
        tell("tick")


def main() -> None:
    settings, topic = json.loads(sys.argv[1]), sys.argv[2]
    ended = threading.Event()
    reading = threading.Thread(target=read, args=(settings, topic, ended))
    reading.start()
    threading.Thread(target=tick, args=(ended,), daemon=True).start()
    sys.stdin.read()
    ended.set()
    reading.join()


if __name__ == "__main__":
    main()
