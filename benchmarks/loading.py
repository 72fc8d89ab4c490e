"""Restart with many groups, on Headrace and Apache Kafka: load 100,000 committed offsets until all groups answer."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import load
from benchmarks.load import Wire
from benchmarks.report import Row
from benchmarks.servers import Headrace, Kafka, Server
from headrace.wire import codec

GROUPS, OFFSETS_EACH, COMMITS_EACH = 1_000, 20, 5
FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH = 10, 8, 9
ROW = Row(
    f"{GROUPS * OFFSETS_EACH * COMMITS_EACH:,} offset records: from the first answer after a restart to all groups",
    "s",
    higher_is_better=False,
)


def run(directory: Path, rounds: int = 3) -> list[Row]:
    for round_number in range(rounds):
        for make in (Kafka, Headrace):
            with make(directory / f"{make.__name__.lower()}-{round_number}") as server:
                _commit_all(server)
                server.stop()
                server.start()
                ROW.add(server.name, _until_all_answer(server))
    return [ROW]


def _commit_all(server: Server) -> None:
    load.create_topic(server.port, "orders", OFFSETS_EACH)
    with Wire(server.port) as wire:
        for commit in range(COMMITS_EACH):
            for group in range(GROUPS):
                frame = _commit_frame(f"group-{group}", commit)
                error = -1
                while error:
                    wire.socket.sendall(frame)
                    answer = codec.read_response(OFFSET_COMMIT, 8, bytes(wire.answer()))[1]
                    error = answer.topics[0].partitions[-1].error_code
                    if error:
                        wire.call(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [f"group-{group}"]})
                        time.sleep(0.02)


def _commit_frame(group: str, offset: int) -> bytes:
    partitions = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": 0,
            "committed_metadata": "",
        }
        for index in range(OFFSETS_EACH)
    ]
    nobody = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    body = {"group_id": group, **nobody, "topics": [{"name": "orders", "partitions": partitions}]}
    return bytes(codec.encode_request(OFFSET_COMMIT, 8, 1, "bench", body))


def _until_all_answer(server: Server) -> float:
    began = time.perf_counter()
    with Wire(server.port) as wire:
        for group in range(GROUPS):
            asked = {"group_id": f"group-{group}", "topics": [{"name": "orders", "partition_indexes": [0]}]}
            while True:
                answer = wire.call(OFFSET_FETCH, 8, {"groups": [asked], "require_stable": False}).groups[0]  # type: ignore[attr-defined]
                if not answer.error_code:
                    break
                time.sleep(0.005)
            assert answer.topics[0].partitions[0].committed_offset == COMMITS_EACH - 1
    return time.perf_counter() - began
