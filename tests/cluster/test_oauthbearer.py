"""A cluster whose brokers log in to each other with short-lived OAUTHBEARER tokens, which another program renews."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jwt
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.clock import PATIENCE_S, Stopwatch, wait_for
from tests.support.cluster import RunningCluster

LIFETIME_S = 3
KEY = ec.generate_private_key(ec.SECP256R1())


def token_for(seconds: int) -> str:
    now = int(time.time())
    return jwt.encode({"sub": "broker", "iat": now, "exp": now + seconds}, KEY, "ES256", headers={"kid": "one"})


def write_token(file: Path) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(token_for(LIFETIME_S))
    fresh.rename(file)


@contextmanager
def renewed_token(file: Path) -> Iterator[None]:
    write_token(file)
    over = threading.Event()

    def renew() -> None:
        while not over.wait(LIFETIME_S / 4):
            write_token(file)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_brokers_replicate_with_tokens_that_expire_and_are_renewed(tmp_path: Path) -> None:
    keys, token = tmp_path / "keys.json", tmp_path / "token"
    entry = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [{**entry, "kid": "one"}]}))
    prefix = "listener.name.plaintext.oauthbearer.sasl.oauthbearer."
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{prefix}jwks.endpoint.url": f"file://{keys}",
        f"{prefix}token.endpoint.url": f"file://{token}",
        f"{prefix}clock.skew.seconds": "0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker",
        "zookeeper.set.acl": "false",
    }
    with renewed_token(token), RunningCluster(tmp_path, brokers=2, settings=settings) as cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            # The test is about the brokers. A client with a short token would lose its connection on a busy machine.
            "oauth_cb": lambda _: (token_for(3600), time.time() + 3600),
        }
        admin = AdminClient(client)
        wait_for(lambda: len(admin.list_topics(timeout=PATIENCE_S).brokers) == 2, "both brokers")
        admin.create_topics([NewTopic("orders", 2, 2)])["orders"].result(PATIENCE_S)
        outcomes: list[object] = []
        # Less than the 30 s after which a follower that cannot log in leaves the ISR: then acks=all fails.
        once = {"acks": "all", "retries": 0, "enable.idempotence": False, "request.timeout.ms": 20_000}
        producer = Producer(client | once)
        written, watch = 0, Stopwatch()
        while not watch.has_run(3 * LIFETIME_S):
            producer.produce("orders", b"x", on_delivery=lambda error, _: outcomes.append(error))
            producer.poll(0.02)
            written += 1
        assert producer.flush(PATIENCE_S) == 0
        assert outcomes == [None] * written
        partitions = admin.list_topics("orders", timeout=PATIENCE_S).topics["orders"].partitions.values()
        assert [len(one.isrs) for one in partitions] == [2, 2]
