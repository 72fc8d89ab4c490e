"""JSON records through the HTTP API, and by confluent-kafka directly, in turns.

One process serves the API; a broker runs in a process of its own. Goal: 20 thousand JSON records a second in batches.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.report import Row
from headrace.testing.process import broker_process

RECORDS = 40_000
BATCH = 1000
TOPIC = "http-bench"
ROWS = {
    "v3": Row("JSON records by v3, one stream", "records/s"),
    "batch": Row("JSON records by v3 records:batch, 1,000 a request", "records/s"),
    "v2": Row("JSON records by v2, 1,000 a request", "records/s"),
    "v2_cpu": Row("the same by v2, for each second of CPU of the API", "records/s"),
    "direct": Row("the same records by confluent-kafka", "records/s"),
    "ratio": Row("v2 / confluent-kafka", ""),
    "read": Row("NDJSON read", "records/s"),
}


def _value(number: int) -> dict[str, Any]:
    return {"id": number, "customer": f"customer-{number % 5000}", "amount": number * 0.25, "paid": number % 2 == 0}


@contextmanager
def _api(bootstrap: str) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "headrace.cli", "http", "start", "--listen", "127.0.0.1:0", "-b", bootstrap]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1], process.pid
    finally:
        process.terminate()
        process.wait(30)


class _Calls:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=120)
        clusters = json.loads(self.ask("GET", "/v3/clusters"))
        self._topic = f"/v3/clusters/{clusters['data'][0]['cluster_id']}/topics/{TOPIC}"

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> bytes:
        self._connection.request(method, path, body, {"Content-Type": kind})
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content

    def v3(self) -> None:
        body = b"".join(
            json.dumps({"value": {"type": "JSON", "data": _value(n)}}).encode() + b"\n" for n in range(RECORDS)
        )
        answers = self.ask("POST", f"{self._topic}/records", body)
        assert answers.count(b'"error_code":200') == RECORDS

    def batch(self) -> None:
        for first in range(0, RECORDS, BATCH):
            entries = [
                {"id": str(n), "value": {"type": "JSON", "data": _value(n)}} for n in range(first, first + BATCH)
            ]
            self.ask("POST", f"{self._topic}/records:batch", json.dumps({"entries": entries}).encode())

    def v2(self) -> None:
        kind = "application/vnd.kafka.json.v2+json"
        for first in range(0, RECORDS, BATCH):
            records = [{"value": _value(n)} for n in range(first, first + BATCH)]
            self.ask("POST", f"/topics/{TOPIC}", json.dumps({"records": records}).encode(), kind)

    def read(self) -> None:
        assert self.ask("GET", f"{self._topic}/records?limit={RECORDS}").count(b"\n") == RECORDS


def _direct(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(TOPIC, json.dumps(_value(number), separators=(",", ":")).encode())
        if number % BATCH == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rate(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return RECORDS / (time.monotonic() - began)


def run(directory: Path, rounds: int = 3) -> list[Row]:
    with broker_process(data_dir=directory / "data") as broker, _api(broker.bootstrap) as (url, pid):
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result()
        calls = _Calls(url)
        for _ in range(rounds):
            direct = _rate(lambda: _direct(broker.bootstrap))
            before_s = _cpu_s(pid)
            v2 = _rate(calls.v2)
            ROWS["v2_cpu"].add("headrace", RECORDS / (_cpu_s(pid) - before_s))
            ROWS["direct"].add("headrace", direct)
            ROWS["v2"].add("headrace", v2)
            ROWS["ratio"].add("headrace", v2 / direct)
            ROWS["v3"].add("headrace", _rate(calls.v3))
            ROWS["batch"].add("headrace", _rate(calls.batch))
            ROWS["read"].add("headrace", _rate(calls.read))
    return list(ROWS.values())
