"""Our own clients log in with OAUTHBEARER tokens: from a file, from a token endpoint, and unsecured."""

from __future__ import annotations

import base64
import json
import pickle
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from headrace.client.blocking.client import BlockingClient
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import ErrorCode, Refused
from headrace.testing import broker
from tests.support.sasl import LISTENERS, SaslBroker

KEY = ec.generate_private_key(ec.SECP256R1())
URL = "sasl.oauthbearer.token.endpoint.url"


def token(**changed: Any) -> str:
    now = int(time.time())
    return jwt.encode({"sub": "anna", "iat": now, "exp": now + 600, **changed}, KEY, "ES256", headers={"kid": "one"})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    entry = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [{**entry, "kid": "one"}]}))
    settings = {
        **LISTENERS,
        "listener.name.clients.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
    }
    with broker(settings) as running:
        yield SaslBroker(running)


@contextmanager
def endpoint(answer: bytes, status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A token endpoint, and the requests that it got."""
    asked: list[dict[str, Any]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            asked.append({**form, "login": self.headers["Authorization"]})
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token", asked
    finally:
        server.shutdown()
        server.server_close()


def settings(**more: str) -> dict[str, str]:
    named = {name.replace("__", "."): text for name, text in more.items()}
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **named}


def logs_in(served: SaslBroker, given: Mapping[str, str]) -> str:
    """The principal that the broker knows this client by. Raises Refused."""
    security = pickle.loads(pickle.dumps(ClientSecurity.from_settings(given)))
    with BlockingClient(served.bootstrap, security=security) as client:
        client.topics([])
        connections = served.running.broker.connections.connections
        return next(one.principal for one in connections if one.listener == "CLIENTS")


def test_a_token_in_a_file(served: SaslBroker, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token() + "\n")
    given = settings() | {URL: f"file://{file}"}
    assert logs_in(served, given) == "User:anna"
    file.write_text(token(exp=1))
    with pytest.raises(Refused, match="invalid_token") as refused:
        logs_in(served, given)
    assert refused.value.code is ErrorCode.sasl_authentication_failed
    file.unlink()
    with pytest.raises(Refused, match="the file cannot be read: No such file"):
        logs_in(served, given)


@pytest.mark.parametrize(
    "names",
    [
        ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret"),
        ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
        None,
    ],
    ids=["kafka", "librdkafka", "jaas"],
)
def test_the_client_credentials_grant_of_a_token_endpoint(served: SaslBroker, names: tuple[str, str] | None) -> None:
    with endpoint(json.dumps({"access_token": token()}).encode()) as (url, asked):
        given = settings() | {URL: url, "sasl.oauthbearer.scope": "kafka read"}
        if names is None:
            module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
            given["sasl.jaas.config"] = f'{module} clientId="pipeline" clientSecret="s3cret";'
        else:
            given |= dict(zip(names, ("pipeline", "s3cret"), strict=True))
        assert logs_in(served, given) == "User:anna"
        (first,) = asked
        assert (first["grant_type"], first["scope"]) == (["client_credentials"], ["kafka read"])
        assert base64.b64decode(first["login"].removeprefix("Basic ")) == b"pipeline:s3cret"
        security = ClientSecurity.from_settings(given)
        assert security.bearer is not None and security.bearer.current() == security.bearer.current()
        assert len(asked) == 2, "a token is used again until it ends"
        assert "s3cret" not in repr(security)


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (b"{}", 200, "the answer has no access_token"),
        (b"not json", 200, "the answer has no access_token"),
        (b"", 401, "no token: HTTP Error 401"),
        (b"", 302, "redirects to another one, which is not followed"),
    ],
)
def test_an_endpoint_without_a_token_is_named(answer: bytes, status: int, words: str) -> None:
    with endpoint(answer, status) as (url, _):
        given = settings() | {
            URL: url,
            "sasl.oauthbearer.client.credentials.client.id": "pipeline",
            "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
        }
        bearer = ClientSecurity.from_settings(given).bearer
        assert bearer is not None
        with pytest.raises(Refused, match=words) as refused:
            bearer.current()
        assert url in refused.value.message and "s3cret" not in refused.value.message


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url"),
        ({URL: "https://idp.example/token"}, "needs sasl.oauthbearer.client.credentials.client.id"),
        (
            {
                URL: "http://idp.example/token",
                "sasl.oauthbearer.client.id": "a",
                "sasl.oauthbearer.client.secret": "b",
            },
            "must be a file, or begin with https://",
        ),
    ],
)
def test_settings_without_a_usable_source_are_refused(more: dict[str, str], words: str) -> None:
    with pytest.raises(Refused, match=words):
        ClientSecurity.from_settings(settings() | more)
