"""Groups on Headrace and Apache Kafka: offset commits, fifty members that join at once, a consumer's time to its
first record.
"""

from __future__ import annotations

import selectors
import time
from pathlib import Path

from confluent_kafka import Consumer

from benchmarks import load
from benchmarks.load import Wire
from benchmarks.report import Row
from benchmarks.servers import Headrace, Kafka, Server
from headrace.coordinators.group.core.classic.embedded_protocol import (
    Subscription,
    write_assignment,
    write_subscription,
)
from headrace.wire import codec

FIND_COORDINATOR, OFFSET_COMMIT, JOIN_GROUP, SYNC_GROUP, LEAVE_GROUP, HEARTBEAT = 10, 8, 11, 14, 13, 12
UNKNOWN_MEMBER_ID = 25
ROWS = {
    "one": Row("offset commits, one client, each awaited", "commits/s", 2.0),
    "many": Row("offset commits, sixteen clients, each awaited", "commits/s", 2.0),
    "rebalance": Row("50 members join at once, until all are assigned", "ms", 1.0, higher_is_better=False),
    "first": Row("consumer start to first record (new protocol)", "ms", 1.0, higher_is_better=False),
    "first_classic": Row("consumer start to first record (classic)", "ms", 1.0, higher_is_better=False),
}
# Otherwise every first generation waits three seconds for late members, and the benchmark would measure that.
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def run(directory: Path, rounds: int = 3) -> list[Row]:
    for round_number in range(rounds):
        for make in (Kafka, Headrace):
            with make(directory / f"{make.__name__.lower()}-{round_number}", SETTINGS) as server:
                _measure(server)
    return list(ROWS.values())


def _measure(server: Server) -> None:
    load.create_topic(server.port, "orders", 50)
    with Wire(server.port) as wire:
        _coordinator(wire, "commits")
    _commits(server, "warm-up", clients=1, seconds=1.0)
    ROWS["one"].add(server.name, _commits(server, "commits", clients=1, seconds=2.0))
    ROWS["many"].add(server.name, _commits(server, "commits", clients=16, seconds=2.0))
    _rebalance(server, "warm-up", 50)
    ROWS["rebalance"].add(server.name, _rebalance(server, "fifty", 50) * 1000)
    frames = [load.produce_frame("orders", {0: load.batch_of(10, 100)}, acks=1)]
    load.produce(server.port, frames, 1, depth=1)
    for row, protocol in (("first", "consumer"), ("first_classic", "classic")):
        _first_record(server, f"warm-{protocol}", protocol)
        ROWS[row].add(server.name, min(_first_record(server, f"{protocol}-{i}", protocol) for i in range(3)) * 1000)


def _coordinator(wire: Wire, group: str) -> None:
    """Waits until the group has a coordinator that answers."""
    while True:
        found = wire.call(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]}).coordinators[0]  # type: ignore[attr-defined]
        if not found.error_code:
            return
        time.sleep(0.05)


def _commit_frame(group: str, partition: int) -> bytes:
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [
            {
                "name": "orders",
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": 12345,
                        "committed_leader_epoch": 0,
                        "committed_metadata": "",
                    }
                ],
            }
        ],
    }
    return bytes(codec.encode_request(OFFSET_COMMIT, 8, 1, "bench", body))


def _commits(server: Server, group: str, *, clients: int, seconds: float) -> float:
    """Each client sends its next commit after the last answer. One thread serves all clients."""
    wires = [Wire(server.port) for _ in range(clients)]
    with selectors.DefaultSelector() as ready:
        for at, wire in enumerate(wires):
            # Each client is a group of its own, like an application, so the coordinators are spread over partitions.
            frame = _commit_frame(f"{group}-{at}", at)
            _coordinator(wire, f"{group}-{at}")
            answer = None
            while answer is None or answer.topics[0].partitions[0].error_code:
                wire.socket.sendall(frame)
                answer = codec.read_response(OFFSET_COMMIT, 8, bytes(wire.answer()))[1]
            ready.register(wire.socket, selectors.EVENT_READ, (wire, frame))
        done = 0
        began = time.perf_counter()
        for wire in wires:
            wire.socket.sendall(ready.get_key(wire.socket).data[1])
        while time.perf_counter() - began < seconds:
            for key, _ in ready.select(1):
                # An answer has a few dozen bytes and arrives in one piece. A cheap load generator measures the broker.
                wire, frame = key.data
                if wire.socket.recv(4096):
                    done += 1
                    wire.socket.send(frame)
        elapsed = time.perf_counter() - began
    for wire in wires:
        wire.close()
    return done / elapsed


def _rebalance(server: Server, group: str, count: int) -> float:
    """Time from the first join until the last member has its assignment."""
    wires = [Wire(server.port) for _ in range(count)]
    _coordinator(wires[0], group)
    metadata = write_subscription(Subscription(1, ("orders",), b""))
    join = {
        "group_id": group,
        "session_timeout": 30_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }
    nobody = {"group_id": group, "generation_id": 0, "member_id": "nobody", "group_instance_id": None}
    while wires[0].call(HEARTBEAT, 3, nobody).error_code != UNKNOWN_MEMBER_ID:  # type: ignore[attr-defined]
        time.sleep(0.05)
    members: dict[int, str] = {}
    began = time.perf_counter()
    waiting: dict[int, str] = {}
    generation = 0
    synced: set[int] = set()
    with selectors.DefaultSelector() as ready:
        for at, wire in enumerate(wires):
            ready.register(wire.socket, selectors.EVENT_READ, at)
            wire.socket.sendall(codec.encode_request(JOIN_GROUP, 5, 1, "bench", join))
            waiting[at] = "join"
        while len(synced) < count:
            for key, _ in ready.select(1):
                at = key.data
                wire = wires[at]
                api, version = (JOIN_GROUP, 5) if waiting[at] == "join" else (SYNC_GROUP, 3)
                reply = codec.read_response(api, version, bytes(wire.answer()))[1]
                if api == JOIN_GROUP:
                    members[at] = reply.member_id
                    if reply.error_code:
                        again = {**join, "member_id": reply.member_id}
                        wire.socket.sendall(codec.encode_request(JOIN_GROUP, 5, 1, "bench", again))
                        continue
                    generation = reply.generation_id
                    given = [
                        {"member_id": m.member_id, "assignment": write_assignment((("orders", (i,)),), 1)}
                        for i, m in enumerate(reply.members)
                    ]
                    sync = {
                        "group_id": group,
                        "generation_id": generation,
                        "member_id": reply.member_id,
                        "group_instance_id": None,
                        "assignments": given,
                    }
                    waiting[at] = "sync"
                    wire.socket.sendall(codec.encode_request(SYNC_GROUP, 3, 1, "bench", sync))
                elif reply.error_code:
                    synced.discard(at)
                    waiting[at] = "join"
                    again = {**join, "member_id": members[at]}
                    wire.socket.sendall(codec.encode_request(JOIN_GROUP, 5, 1, "bench", again))
                else:
                    synced.add(at)
        elapsed = time.perf_counter() - began
    for at, wire in enumerate(wires):
        wire.call(LEAVE_GROUP, 1, {"group_id": group, "member_id": members[at]})
        wire.close()
    return elapsed


def _first_record(server: Server, group: str, protocol: str) -> float:
    began = time.perf_counter()
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": f"first-{group}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    while True:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            break
        if time.perf_counter() - began > 60:
            raise RuntimeError(f"no record within a minute from {server.name} ({protocol})")
    elapsed = time.perf_counter() - began
    consumer.close()
    return elapsed
