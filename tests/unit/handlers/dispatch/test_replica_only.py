"""Requests of brokers are refused on client listeners, and no other request is."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headrace.client.connection import Connection
from headrace.handlers.dispatch.replica_only import REPLICA_ONLY
from headrace.kernel.errors import ErrorCode
from headrace.testing import in_process
from headrace.testing.in_process import RunningBroker

REFUSED = ErrorCode.cluster_authorization_failed
TOPIC = UUID(int=7)
OWN = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
_FETCH: dict[str, Any] = {
    "max_wait": 0,
    "min_bytes": 0,
    "max_bytes": 1 << 20,
    "isolation_level": 0,
    "session_id": 0,
    "session_epoch": -1,
    "topics": [],
    "forgotten_topics_data": [],
    "rack_id": "",
}


def _topics(**fields: Any) -> dict[str, Any]:
    return {"group_id": "g", "topics": [{"topic_id": TOPIC, "partitions": [{"partition": 3, **fields}]}]}


# API key, version, body: what a broker would send.
ASKED: list[tuple[int, int, dict[str, Any]]] = [
    (1, 13, {**_FETCH, "replica_id": 1}),
    (1, 17, {**_FETCH, "replica_state": {"replica_id": 1, "replica_epoch": 1}}),
    (24, 4, {"transactions": []}),
    (
        27,
        1,
        {
            "markers": [
                {
                    "producer_id": 5,
                    "producer_epoch": 0,
                    "transaction_result": False,
                    "topics": [{"name": "t", "partition_indexes": [0, 1]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
    ),
    (56, 3, {"broker_id": 0, "broker_epoch": 1, "topics": []}),
    (58, 0, {"request_data": b"", "request_principal": b"User:admin", "client_host_address": b"x"}),
    (
        63,
        0,
        {
            "broker_id": 0,
            "broker_epoch": 1,
            "current_metadata_offset": 0,
            "want_fence": False,
            "want_shut_down": True,
        },
    ),
    (67, 0, {"broker_id": 0, "broker_epoch": 1}),
    (73, 0, {"broker_id": 0, "broker_epoch": 1, "directories": []}),
    (83, 0, _topics(state_epoch=1, start_offset=0)),
    (84, 0, _topics(leader_epoch=1)),
    (85, 0, _topics(state_epoch=1, leader_epoch=1, start_offset=0, state_batches=[])),
    (86, 0, _topics()),
    (87, 0, _topics(leader_epoch=1)),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with in_process.broker(OWN, data_dir=tmp_path_factory.mktemp("data")) as running:
        yield running


def ask(broker: RunningBroker, listener: str, api_key: int, version: int, body: dict[str, Any]) -> Any:
    where = broker.broker.listeners.advertised_for(listener)

    async def once() -> Any:
        connection = await Connection.open(where.host, where.port)
        try:
            return await connection.request(api_key, body, version=version)
        finally:
            await connection.close()

    return asyncio.run(once())


def codes(answer: Any) -> set[int]:
    """Every error code in an answer, wherever it stands."""
    found: set[int] = set()
    for name in getattr(answer, "__dataclass_fields__", ()):
        value = getattr(answer, name)
        if name == "error_code":
            found.add(int(value))
        elif isinstance(value, tuple):
            found = found.union(*map(codes, value))
    return found


def test_every_request_of_brokers_is_tested_here() -> None:
    assert {key for key, _, _ in ASKED} == set(REPLICA_ONLY)


@pytest.mark.parametrize(("api_key", "version", "body"), ASKED, ids=[f"{k}-v{v}" for k, v, _ in ASKED])
def test_requests_of_brokers_are_accepted_only_on_the_inter_broker_listener(
    broker: RunningBroker, api_key: int, version: int, body: dict[str, Any]
) -> None:
    refused = codes(ask(broker, "CLIENTS", api_key, version, body))
    assert int(REFUSED) in refused
    assert refused <= {0, int(REFUSED)}
    assert int(REFUSED) not in codes(ask(broker, "BROKERS", api_key, version, body))


@pytest.mark.parametrize(
    "body", [{**_FETCH, "replica_id": -1}, {**_FETCH, "replica_id": -2}], ids=["consumer", "debugger"]
)
def test_consumers_fetch_on_every_listener(broker: RunningBroker, body: dict[str, Any]) -> None:
    for listener in ("CLIENTS", "BROKERS"):
        assert codes(ask(broker, listener, 1, 13, body)) == {0}


def test_with_one_listener_for_all_nothing_is_refused(tmp_path: Path) -> None:
    with in_process.broker({}, data_dir=tmp_path) as shared:
        for api_key, version, body in ASKED:
            assert int(REFUSED) not in codes(ask(shared, "PLAINTEXT", api_key, version, body))


def test_a_follower_with_the_oldest_fetch_version_is_refused(broker: RunningBroker) -> None:
    """Its answer has no place for the code: the connection ends."""
    where = broker.broker.listeners.advertised_for("CLIENTS")

    async def once() -> bytes:
        reader, writer = await asyncio.open_connection(where.host, where.port)
        body = struct.pack(">hhih", 1, 4, 1, -1) + struct.pack(">iiiibi", 1, 0, 0, 1 << 20, 0, 0)
        writer.write(struct.pack(">i", len(body)) + body)
        answer = await reader.read()
        writer.close()
        return answer

    assert asyncio.run(once()) == b""
