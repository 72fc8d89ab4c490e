"""`python -m benchmarks.fetch_wakes [PARTITIONS…]`: CPU time of the broker per record, for a consumer that waits on
many partitions while one record after the other arrives in one of them.

With a fetch session (Java, franz-go) a fetch names only what changed. Without (librdkafka) every fetch names all
partitions, so the broker must read a request that grows with them; the rows show what a wake adds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.load import FETCH, Wire, batch_of, create_topic, produce_frame
from headrace.testing import broker_process
from headrace.wire import codec

_FETCH_VERSION = 12
_RECORDS = 300


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _frame(topic: str, offsets: dict[int, int], session: tuple[int, int]) -> bytes:
    asked = [
        {
            "partition": index,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        for index, offset in offsets.items()
    ]
    body: dict[str, Any] = {
        "replica_id": -1,
        "max_wait": 30_000,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [{"topic": topic, "partitions": asked}] if asked else [],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return bytes(codec.encode_request(FETCH, _FETCH_VERSION, 1, "bench", body))


def wait_until_idle(pid: int) -> None:
    """A broker creates the files of new partitions in the background."""
    while True:
        before = cpu_seconds(pid)
        time.sleep(0.5)
        if cpu_seconds(pid) - before < 0.03:
            return


def measure(port: int, pid: int, partitions: int, *, with_session: bool) -> float:
    """Milliseconds of CPU per record."""
    topic = f"wakes-{partitions}-{with_session}"
    create_topic(port, topic, partitions)
    wait_until_idle(pid)
    offsets = dict.fromkeys(range(partitions), 0)
    produced = [produce_frame(topic, {index: batch_of(1, 100)}, 1) for index in range(min(partitions, 50))]
    with Wire(port) as consumer, Wire(port) as producer:
        session = 0
        if with_session:
            consumer.socket.sendall(_frame(topic, offsets, (0, 0)))
            producer.socket.sendall(produced[0])
            producer.answer()
            session = int(codec.read_response(FETCH, _FETCH_VERSION, bytes(consumer.answer()))[1].session_id)
            offsets[0] += 1
        epoch, changed, began = 1, {0: offsets[0]}, 0.0
        everything = dict(offsets)
        for number in range(-50, _RECORDS):
            if number == 0:
                began = cpu_seconds(pid)
            index = number % len(produced)
            if with_session:
                consumer.socket.sendall(_frame(topic, changed, (session, epoch)))
                epoch += 1
            else:
                consumer.socket.sendall(_frame(topic, everything, (0, -1)))
            time.sleep(0.002)  # the fetch waits before the record arrives
            producer.socket.sendall(produced[index])
            producer.answer()
            consumer.answer()
            everything[index] += 1
            changed = {index: everything[index]}
        return (cpu_seconds(pid) - began) * 1000 / _RECORDS


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [10, 100, 1000, 3000]
    with (
        tempfile.TemporaryDirectory() as directory,
        broker_process(data_dir=Path(directory) / "data") as running,
    ):
        assert running.process is not None
        print(f"{'partitions':>10} {'with a session':>16} {'without':>10}   CPU ms per record")
        for count in counts:
            rows = [measure(running.port, running.process.pid, count, with_session=kind) for kind in (True, False)]
            print(f"{count:>10} {rows[0]:>16.3f} {rows[1]:>10.3f}", flush=True)


if __name__ == "__main__":
    main()
