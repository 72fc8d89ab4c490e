"""Cost of an authorizer: one-record produce requests without one and with a thousand ACLs, on both brokers.

Goal for Headrace: at least 0.9 of its request rate without an authorizer.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import load
from benchmarks.report import Row
from benchmarks.servers import Headrace, Kafka, Server

CREATE_ACLS = 30
ROWS = {
    "open": Row("one-record produce requests, no authorizer", "requests/s"),
    "acls": Row("one-record produce requests, 1,000 ACLs", "requests/s", 4.0),
    "kept": Row("requests with ACLs, as a share of those without", ""),
    "kept_cpu": Row("the same per second of the broker's CPU time", ""),
}
# The anonymous client may create topics and ACLs, because no ACL covers the cluster. The topic has its own ACLs.
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
REQUESTS = 64 * 500
PASSES = 3


def run(directory: Path, rounds: int = 3) -> list[Row]:
    for number in range(rounds):
        for make in (Kafka, Headrace):
            name = f"{make.__name__.lower()}-{number}"
            with make(directory / name) as server:
                without, without_cpu = _requests_per_second(server)
            with make(directory / f"{name}-acls", SETTINGS) as server:
                _create_acls(server)
                with_acls, with_acls_cpu = _requests_per_second(server)
            values = {"open": without, "acls": with_acls, "kept": with_acls / without}
            values["kept_cpu"] = with_acls_cpu / without_cpu
            for row, value in values.items():
                ROWS[row].add(server.name, value)
    return list(ROWS.values())


def _create_acls(server: Server) -> None:
    principals = [("User:ANONYMOUS", "small"), *((f"User:u{number}", f"topic-{number}") for number in range(1000))]
    creations = [
        {
            "resource_type": 2,
            "resource_name": topic,
            "resource_pattern_type": 3,
            "principal": principal,
            "host": "*",
            "operation": 4,
            "permission_type": 3,
        }
        for principal, topic in principals
    ]
    with load.Wire(server.port) as wire:
        answer = wire.call(CREATE_ACLS, 3, {"creations": creations})
    assert not any(row.error_code for row in answer.results)  # type: ignore[attr-defined]


def _requests_per_second(server: Server) -> tuple[float, float]:
    """By the clock (the median pass), and by the CPU time of the broker, which other programs disturb less."""
    load.create_topic(server.port, "small", 1)
    one = [load.produce_frame("small", {0: load.batch_of(1, 100)}, acks=1)] * 64
    load.produce(server.port, one, 20_000, depth=256, burst=64)
    before = server.cpu_seconds()
    seconds = [load.produce(server.port, one, REQUESTS, depth=256, burst=64) for _ in range(PASSES)]
    used = server.cpu_seconds() - before
    return REQUESTS / sorted(seconds)[PASSES // 2], REQUESTS * PASSES / used
