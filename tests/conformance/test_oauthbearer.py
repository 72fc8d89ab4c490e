"""Clients log in with signed tokens: librdkafka and kafka-python, with keys from a file and from a URL."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from cryptography.hazmat.primitives.asymmetric import ec

from headrace.broker.broker import CannotStart
from headrace.testing import broker
from tests.support.sasl import LISTENERS, SaslBroker

KEY = ec.generate_private_key(ec.SECP256R1())
STRANGER = ec.generate_private_key(ec.SECP256R1())
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


def key_set() -> bytes:
    entry = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    return json.dumps({"keys": [{**entry, "kid": "one", "alg": "ES256"}]}).encode()


def token(key: Any = KEY, algorithm: str = "ES256", **changed: Any) -> str:
    now = int(time.time())
    claims = {"sub": "anna", "iat": now, "exp": now + 60, "iss": "idp", "aud": "kafka", "scope": "x", **changed}
    return jwt.encode(claims, key, algorithm, headers={"kid": "one"})


def settings(**more: str) -> dict[str, str]:
    oauth = {f"listener.name.clients.oauthbearer.{name}": value for name, value in more.items()}
    return {**LISTENERS, "listener.name.clients.sasl.enabled.mechanisms": "OAUTHBEARER", **oauth}


def signed(url: str) -> dict[str, str]:
    return settings(
        **{
            "sasl.oauthbearer.jwks.endpoint.url": url,
            "sasl.oauthbearer.expected.issuer": "idp",
            "sasl.oauthbearer.expected.audience": "kafka",
        }
    )


def logs_in(served: SaslBroker, text: str) -> bool:
    errors: list[KafkaError] = []
    client = Producer(
        {
            "bootstrap.servers": served.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (text, time.time() + 60),
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    try:
        return bool(client.list_topics(timeout=3).brokers)
    except KafkaException:
        client.poll(0)
        assert any(error.code() == KafkaError._AUTHENTICATION for error in errors), errors
        return False


def test_signed_tokens_with_keys_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(key_set())
    with broker(signed(f"file://{tmp_path}/keys.json")) as running:
        served = SaslBroker(running)
        assert logs_in(served, token())
        assert not logs_in(served, token(STRANGER))
        assert not logs_in(served, token(aud="other"))
        assert not logs_in(served, jwt.encode({"sub": "anna", "exp": 2**31, "iat": 0}, "", "none"))


@contextmanager
def provider(*, redirect_to: str | None = None) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302 if redirect_to else 200)
            if redirect_to:
                self.send_header("Location", redirect_to)
            self.end_headers()
            self.wfile.write(key_set())

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/keys", asked
    finally:
        server.shutdown()
        server.server_close()


def test_keys_are_loaded_once_and_only_from_an_allowed_url(tmp_path: Path) -> None:
    with provider() as (url, asked):
        with pytest.raises(CannotStart, match="is not allowed"), broker(signed(url)):
            pass
        allowed = {"org.apache.kafka.sasl.oauthbearer.allowed.urls": url}
        with broker({**signed(url), **allowed}) as running:
            for _ in range(3):
                assert logs_in(SaslBroker(running), token())
        assert asked == ["/keys"]


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "keys.json"
    secret.write_bytes(key_set())
    with provider(redirect_to=f"file://{secret}") as (url, asked):
        allowed = {"org.apache.kafka.sasl.oauthbearer.allowed.urls": url}
        with broker({**signed(url), **allowed}) as running:
            assert not logs_in(SaslBroker(running), token())
        assert asked


@pytest.mark.parametrize("url", ["http://169.254.169.254/keys", "ftp://host/keys", "https://idp.example/keys"])
def test_cve_2025_27817_broker_does_not_start_with_a_url_that_is_not_allowed(url: str) -> None:
    with pytest.raises(CannotStart, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"), broker(signed(url)):
        pass


def test_broker_does_not_start_with_oauthbearer_without_keys() -> None:
    with pytest.raises(CannotStart, match="must be set"), broker(settings()):
        pass


def test_unsecured_tokens_are_accepted_only_if_configured() -> None:
    text = jwt.encode({"sub": "anna", "exp": 2**31, "iat": 0}, "", "none")
    with broker(settings(**{"sasl.server.callback.handler.class": UNSECURED})) as running:
        assert logs_in(SaslBroker(running), text)
        assert not logs_in(SaslBroker(running), token())
