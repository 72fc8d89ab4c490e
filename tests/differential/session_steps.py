"""A fetch session (KIP-227) from creation to close, including invalid requests: each step on one connection, in
order.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from headrace.wire import codec
from tests.differential.data_variants import UNKNOWN_ID, batch, produce_body
from tests.differential.servers import Server, masked, plain, read_answer
from tests.differential.table import Body, create_topic
from tests.support.clock import PATIENCE_S, wait_for

Places = list[tuple[str, list[tuple[int, int]]]]


def _body(server: Server, session: int, epoch: int, places: Places, forgotten: Places) -> Body:
    topics = []
    for topic, asked in places:
        partitions = [
            {
                "partition": index,
                "current_leader_epoch": -1,
                "fetch_offset": offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": 1 << 20,
            }
            for index, offset in asked
        ]
        topics.append({"topic": topic, "topic_id": server.known.get(topic, UNKNOWN_ID), "partitions": partitions})
    gone = [
        {"topic": topic, "topic_id": server.known.get(topic, UNKNOWN_ID), "partitions": [index for index, _ in asked]}
        for topic, asked in forgotten
    ]
    return {
        "replica_id": -1,
        "max_wait": 10,
        "min_bytes": 1,
        "max_bytes": 10 << 20,
        "isolation_level": 0,
        "session_id": session,
        "session_epoch": epoch,
        "topics": topics,
        "forgotten_topics_data": gone,
        "rack_id": "",
    }


def session_steps_of(server: Server, version: int) -> Iterator[tuple[str, Any]]:
    """(step, answer) for every step."""
    name = f"session-{version}"
    create_topic(server, name, 2)
    server.known[name] = server.topic_id(name)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:

        def fetch(session: int, epoch: int, places: Places | None = None, forgotten: Places | None = None) -> Any:
            body = _body(server, session, epoch, places or [], forgotten or [])
            client.sendall(codec.encode_request(1, version, 7, "differential", body))
            return plain(codec.read_response(1, version, read_answer(client))[1])

        # Kafka's metadata names a leader a moment before it leads.
        everything: Places = [(name, [(0, 0), (1, 0)])]
        wait_for(
            lambda: not any(one["error_code"] for one in fetch(0, -1, everything)["responses"][0]["partitions"]),
            f"leaders of {name} on {server.name}",
        )
        born = fetch(0, 0, [(name, [(0, 0), (1, 0)]), ("small", [(0, 0)])])
        yield "created", masked(born)
        first = born["session_id"]
        yield "no new records", masked(fetch(first, 1))
        server.ask(0, 9, produce_body(0, batch(2), topic=name))
        yield "new records", masked(fetch(first, 2))
        yield "the same epoch again", masked(fetch(first, 2))
        yield "an epoch too high", masked(fetch(first, 9))
        yield "next offset", masked(fetch(first, 3, [(name, [(0, 2)])]))
        yield "an unknown partition", masked(fetch(first, 4, [(name, [(7, 0)])]))
        yield "still unknown", masked(fetch(first, 5))
        yield "forgotten", masked(fetch(first, 6, [], [(name, [(0, 0), (7, 0)])]))
        yield "unknown partitions forgotten", masked(fetch(first, 7, [], [("nowhere", [(0, 0)]), (name, [(55, 0)])]))
        yield "offset out of range", masked(fetch(first, 8, [(name, [(1, 500)])]))
        yield "still out of range", masked(fetch(first, 9))
        yield "in range again", masked(fetch(first, 10, [(name, [(1, 0)])]))
        yield "an unknown topic", masked(fetch(first, 11, [("nowhere", [(0, 0)])]))
        yield "replaced", masked(fetch(first, 0, [("small", [(0, 0)])]))
        yield "the replaced session", masked(fetch(first, 12))
        other = fetch(0, 0, [("small", [(0, 0)])])
        yield "another session", masked(other)
        yield "closed", masked(fetch(other["session_id"], -1, [("small", [(0, 0)])]))
        yield "the closed session", masked(fetch(other["session_id"], 1))
        yield "a negative epoch", masked(fetch(0, -5, [("small", [(0, 0)])]))
        yield "a negative session", masked(fetch(-7, 3))
