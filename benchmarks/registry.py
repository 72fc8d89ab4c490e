"""The schema registry: start with 10,000 subjects of five versions, memory, look-ups by id.

Goals: ready in 3 s with at most 200 MB, and 2,000 look-ups a second by one process. There is no registry of Confluent's
beside it: its packages cannot be downloaded.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.report import Row
from benchmarks.servers import Headrace
from headrace.registry.core.content import Content
from headrace.registry.core.records import SubjectVersion, schema_entry

SUBJECTS = 10_000
VERSIONS = 5
CONNECTIONS = 8
SECONDS = 3.0
ROWS = {
    "start": Row("registry ready, 10,000 subjects with 5 versions", "s"),
    "start cpu": Row("CPU time of the registry until then", "s"),
    "memory": Row("memory of the registry after that", "MB"),
    "lookups": Row("look-ups by id", "requests/s"),
    "lookups cpu": Row("look-ups by id in a second of the registry's CPU time", "requests"),
}


def run(directory: Path, rounds: int = 3) -> list[Row]:
    for number in range(rounds):
        with Headrace(directory / f"headrace-{number}") as server:
            _fill(server.port)
            began = time.perf_counter()
            command = [sys.executable, "-m", "headrace.cli", "registry", "start", "--listen", "127.0.0.1:0"]
            command += ["--bootstrap", f"127.0.0.1:{server.port}"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                try:
                    assert process.stdout is not None
                    port = int(process.stdout.readline().rpartition(":")[2])
                    ROWS["start"].add(server.name, time.perf_counter() - began)
                    used = _cpu_s(process.pid)
                    ROWS["start cpu"].add(server.name, used)
                    ROWS["memory"].add(server.name, _resident_mb(process.pid))
                    began = time.perf_counter()
                    count = asyncio.run(_lookups(port))
                    ROWS["lookups"].add(server.name, count / (time.perf_counter() - began))
                    ROWS["lookups cpu"].add(server.name, count / (_cpu_s(process.pid) - used))
                finally:
                    process.terminate()
    return list(ROWS.values())


def _fill(port: int) -> None:
    address = {"bootstrap.servers": f"127.0.0.1:{port}"}
    topic = NewTopic("_schemas", 1, 1, config={"cleanup.policy": "compact"})
    admin = AdminClient(address)
    admin.create_topics([topic])["_schemas"].result(30)
    producer = Producer({**address, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    id_ = 0
    for subject in range(SUBJECTS):
        for version in range(1, VERSIONS + 1):
            id_ += 1
            content = Content(_schema(subject, version))
            entry = schema_entry(SubjectVersion(f"topic-{subject}-value", version, id_, content, content.md5()))
            key, value = entry.encoded()
            producer.produce("_schemas", value, key)
            producer.poll(0)
    assert producer.flush(60) == 0


def _schema(subject: int, version: int) -> str:
    fields = [{"name": f"field_{at}", "type": "long", "default": 0} for at in range(4 + version)]
    document = {"type": "record", "name": f"Record{subject}", "namespace": "shop", "fields": fields}
    return json.dumps(document, separators=(",", ":"))


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _cpu_s(pid: int) -> float:
    """CPU time of a process, which other load on the machine does not change much."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _lookups(port: int) -> int:
    """The number of answers over a few connections that stay open."""
    deadline = time.perf_counter() + SECONDS

    async def client(number: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count = 0
        while time.perf_counter() < deadline:
            id_ = (number * 7919 + count * 31) % (SUBJECTS * VERSIONS) + 1
            writer.write(f"GET /schemas/ids/{id_} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))
            count += 1
        writer.close()
        return count

    return sum(await asyncio.gather(*map(client, range(CONNECTIONS))))
