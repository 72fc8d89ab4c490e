"""Load from Kafka's own performance tools: Java clients with their defaults, as many users measure a broker.

The tools need more CPU than either broker, so their figures differ less than those of the raw load generator.
"""

from __future__ import annotations

import re

from benchmarks import load
from benchmarks.servers import Server
from tests.reference.kafka import run_tool

RECORDS = 500_000
RECORD_BYTES = 1024
PARTITIONS = 6
_TOOLS = "org.apache.kafka.tools"
_MEGABYTE = (1 << 20) / 1e6


def produce_and_consume(server: Server, topic: str = "tools") -> tuple[float, float]:
    """MB/s of ProducerPerformance and ConsumerPerformance, the latter without the time to join its group."""
    load.create_topic(server.port, topic, PARTITIONS)
    produced = _run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={server.bootstrap}"),
    )
    sent = re.findall(rf"^{RECORDS} records sent, .*\(([\d.]+) MB/sec\)", produced, re.MULTILINE)
    if not sent:
        raise RuntimeError(f"ProducerPerformance did not finish: {produced}")
    consumed = _run(
        "ConsumerPerformance",
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--num-records", str(RECORDS)),
    )
    rows = [line.split(", ") for line in consumed.splitlines() if ", " in line]
    read = dict(zip(rows[0], rows[-1], strict=True))
    if int(read["data.consumed.in.nMsg"]) < RECORDS:
        raise RuntimeError(f"ConsumerPerformance did not find every record: {consumed}")
    return float(sent[-1]) * _MEGABYTE, float(read["fetch.MB.sec"]) * _MEGABYTE


def _run(tool: str, *arguments: str) -> str:
    done = run_tool(f"{_TOOLS}.{tool}", *arguments, timeout=240, heap="512m")
    if done.returncode:
        raise RuntimeError(f"{tool} failed: {done.stdout}{done.stderr}")
    return done.stdout
