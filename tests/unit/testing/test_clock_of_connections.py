"""Timers of logs, connections, logins and clusters that a test can turn (`broker_timers` lists them all)."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient

from headrace.client.connection import Connection
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import Refused
from headrace.testing.in_process import RunningBroker, broker
from headrace.testing.in_process_cluster import cluster
from headrace.testing.secured import make_certificates, secured_broker
from headrace.wire.apis import ApiKey
from tests.support.clock import PATIENCE_S, wait_for
from tests.support.sasl import PASSWORD, sasl_broker


@pytest.fixture
def headrace() -> Iterator[RunningBroker]:
    with broker({"log.initial.task.delay.ms": "300000", "log.retention.check.interval.ms": "300000"}) as running:
        yield running


def send(bootstrap: str, value: str = "tea", timestamp: int = 0, **settings: Any) -> str:
    """Sends one record to partition 0 of "orders". Returns the name of its error, or ""."""
    told: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0, **settings})
    producer.produce(
        "orders",
        value,
        key="k",
        partition=0,
        timestamp=timestamp,
        on_delivery=lambda e, _: told.append(e.name() if e else ""),
    )
    assert producer.flush(PATIENCE_S) == 0
    return told[0]


# Logs


def test_a_record_of_the_future_is_refused_until_its_time(headrace: RunningBroker) -> None:
    headrace.create_topic("orders", settings={"message.timestamp.after.max.ms": "3600000"})
    later = headrace.clock.now_ms + 5 * 3_600_000
    assert send(headrace.bootstrap, timestamp=later) == "INVALID_TIMESTAMP"
    headrace.clock.advance(hours=4.5)
    assert send(headrace.bootstrap, timestamp=later) == ""


def test_a_log_is_flushed_after_its_interval() -> None:
    with broker({"log.flush.scheduler.interval.ms": "60000"}) as headrace:
        headrace.create_topic("orders", settings={"flush.ms": "600000"})
        assert send(headrace.bootstrap) == ""
        log = headrace.broker.log_dirs.log("orders", 0)
        assert log is not None
        headrace.clock.advance(minutes=5)
        assert headrace.call(lambda: log.recovery_point) == 0
        headrace.clock.advance(minutes=6)
        wait_for(lambda: headrace.call(lambda: log.recovery_point) == 1, "the flush")


def test_the_high_watermark_is_saved_after_its_interval() -> None:
    with broker({"replica.high.watermark.checkpoint.interval.ms": "3600000"}) as headrace:
        headrace.create_topic("orders")
        assert send(headrace.bootstrap) == ""
        saved = headrace.data_dir / "replication-offset-checkpoint"
        headrace.clock.advance(minutes=61)
        wait_for(lambda: saved.exists() and "orders 0 1" in saved.read_text(), "the checkpoint")


def test_the_longest_lag_of_compaction_rolls_the_segment(headrace: RunningBroker) -> None:
    """Without max.compaction.lag.ms this log never has enough to compact."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "3600000"}
    headrace.create_topic("orders", settings=settings)
    log = headrace.broker.log_dirs.log("orders", 0)
    assert log is not None
    for value in ("first", "second"):
        assert send(headrace.bootstrap, value, headrace.clock.now_ms) == ""
    headrace.clock.advance(hours=2)
    assert send(headrace.bootstrap, "third", headrace.clock.now_ms) == ""

    written = headrace.call(lambda: log.size_bytes)
    wait_for(
        lambda: headrace.clock.advance(minutes=10) or headrace.call(lambda: log.size_bytes) < written, "compaction"
    )


# Groups


def test_the_session_of_a_member_of_a_share_group_ends(headrace: RunningBroker) -> None:
    headrace.create_topic("orders")
    member = ShareConsumer({"bootstrap.servers": headrace.bootstrap, "group.id": "workers", "log_level": 0})
    member.subscribe(["orders"])

    def state() -> str:
        groups = headrace.run(headrace.broker.parts.coordinators.groups.list_groups((), ()))
        return groups[0].state if groups else ""

    try:
        wait_for(lambda: bool(member.poll(0.1)) or state() == "Stable", "the member")
        # The member goes on with heartbeats, and would join again.
        headrace.fail("ShareGroupHeartbeat", close=True, times=None)
        headrace.clock.advance(seconds=30)
        assert state() == "Stable"
        wait_for(lambda: headrace.clock.advance(seconds=46) or state() == "Empty", "the session to end")
    finally:
        headrace.heal()
        member.close()


# Connections


def test_a_throttled_connection_is_served_again(headrace: RunningBroker) -> None:
    """aiokafka does not wait by itself, so only the broker holds its next request back."""
    headrace.create_topic("orders")
    headrace.fail("Produce", throttle=600)

    async def send_two() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=headrace.bootstrap, request_timeout_ms=600_000) as producer:
            first = await producer.send_and_wait("orders", b"tea", partition=0)
            second = await producer.send("orders", b"coffee", partition=0)
            await asyncio.to_thread(headrace.clock.advance, seconds=601)
            return [first.offset, (await second).offset]

    assert asyncio.run(asyncio.wait_for(send_two(), PATIENCE_S)) == [0, 1]


def test_a_handshake_has_a_deadline(certificates: Path) -> None:
    with secured_broker(certificates) as headrace, socket.create_connection((headrace.host, headrace.port)) as silent:
        silent.settimeout(PATIENCE_S)
        wait_for(lambda: headrace.call(lambda: headrace.broker.connections.connections), "the connection")
        headrace.clock.advance(minutes=2)
        assert silent.recv(1) == b"", "the broker closed the connection"


# Security


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("authority") / "certificates"
    make_certificates(directory)
    return directory


def logins(headrace: RunningBroker) -> int:
    return sum(one.header.api_key == ApiKey.SASL_HANDSHAKE for one in headrace.requests(200))


def test_a_login_must_be_renewed(certificates: Path) -> None:
    with secured_broker(certificates, {"connections.max.reauth.ms": "3600000"}) as headrace:
        admin = AdminClient({**headrace.client(), "log_level": 0})
        for _ in range(2):  # the first asks at the bootstrap address, the second at the broker's own
            admin.list_topics(timeout=PATIENCE_S)
        before = logins(headrace)
        headrace.clock.advance(minutes=5)
        admin.list_topics(timeout=PATIENCE_S)
        assert logins(headrace) == before
        headrace.clock.advance(hours=2)
        admin.list_topics(timeout=PATIENCE_S)
        assert logins(headrace) > before


def test_the_answer_to_a_wrong_password_waits(certificates: Path) -> None:
    with secured_broker(certificates, {"connection.failed.authentication.delay.ms": "8000"}) as headrace:
        errors: list[Any] = []
        wrong = {**headrace.client(), "sasl.password": "guessed", "log_level": 0}
        client = Producer({**wrong, "error_cb": errors.append})

        def waits() -> bool:
            last = headrace.requests(1)
            return bool(last) and last[0].header.api_key == ApiKey.SASL_AUTHENTICATE

        wait_for(waits, "the login")
        client.poll(0.3)
        assert not any(error.name() == "_AUTHENTICATION" for error in errors)
        wait_for(
            lambda: (
                headrace.clock.advance(seconds=9)  # a login as a whole may take ten
                or client.poll(0.1) is None
                or any(error.name() == "_AUTHENTICATION" for error in errors)
            ),
            "the answer",
        )


def test_a_delegation_token_expires() -> None:
    """A client cannot log in with it any more, and the controller removes it at its next look."""
    new = {"renewers": [], "max_lifetime": -1, "owner_principal_type": None, "owner_principal_name": None}
    with sasl_broker({"delegation.token.secret.key": "secret", "delegation.token.expiry.time.ms": "3600000"}) as served:

        def ask(security: ClientSecurity, api: ApiKey, body: dict[str, Any]) -> Any:
            async def asked() -> Any:
                connection = await Connection.open("127.0.0.1", served.port, security=security)
                try:
                    return await connection.request(api, body)
                finally:
                    await connection.close()

            return asyncio.run(asked())

        anna = ClientSecurity("SASL_PLAINTEXT", "SCRAM-SHA-256", "anna", PASSWORD)
        token = ask(anna, ApiKey.CREATE_DELEGATION_TOKEN, new)
        password = base64.b64encode(token.hmac).decode()
        by_token = ClientSecurity("SASL_PLAINTEXT", "SCRAM-SHA-256", token.token_id, password, by_token=True)
        assert ask(by_token, ApiKey.METADATA, {"topics": []}).brokers
        served.running.clock.advance(minutes=61)
        with pytest.raises(Refused):
            ask(by_token, ApiKey.METADATA, {"topics": []})

        def known() -> bool:
            served.running.clock.advance(hours=2)
            return bool(ask(anna, ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}).tokens)

        wait_for(lambda: not known(), "the controller to remove the token")


# Clusters


def test_the_preferred_replica_leads_again() -> None:
    with cluster(brokers=2, settings={"min.insync.replicas": "1"}) as running:
        running.brokers[1].create_topic("orders", replicas=2)
        preferred = running.leader("orders")
        running.kill(preferred)
        wait_for(lambda: running.leader("orders") not in (-1, preferred), "another leader")
        running.start(preferred)
        assert running.leader("orders") != preferred
        wait_for(
            lambda: running.clock.advance(seconds=301) or running.leader("orders") == preferred, "the preferred leader"
        )


def test_a_write_that_is_not_replicated_in_time_is_refused() -> None:
    with cluster(brokers=2, settings={"replica.lag.time.max.ms": "86400000"}) as running:
        running.brokers[1].create_topic("orders", replicas=2)
        running.cut(1, 2)
        leader = running.leader("orders")
        with ThreadPoolExecutor() as pool:
            # The client gives up later than the broker, and does not try again.
            patience: dict[str, Any] = {"request.timeout.ms": 300_000, "message.timeout.ms": 600_000, "retries": 0}
            sent = pool.submit(send, running.bootstrap, acks="all", **patience)
            logs = running.running(leader).broker.log_dirs
            wait_for(lambda: (log := logs.log("orders", 0)) and log.log_end_offset == 1, "the leader to append")
            running.clock.advance(seconds=301)
            assert sent.result() == "REQUEST_TIMED_OUT"
