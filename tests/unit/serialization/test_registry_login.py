"""Which login a registry client sends, and where it does not send one."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headrace.client.security import ClientSecurity
from headrace.serialization.errors import RegistryUnreachable
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.registry_login import registry_client

SCRAM = ClientSecurity("SASL_SSL", "SCRAM-SHA-512", "ann", "secret")


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str | None]]]:
    """The address of a server, and the logins that it got."""
    logins: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            logins.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", logins
        server.shutdown()


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_users_of_the_brokers_log_in_with_their_password(asked: tuple[str, list[str | None]]) -> None:
    address, logins = asked
    for security in (None, ClientSecurity("SSL"), SCRAM):
        registry_client(f"http://{address}", security).call("GET", "/subjects")
    assert logins == [None, None, basic("ann:secret")]


def test_a_login_in_the_url_wins_and_is_not_shown(asked: tuple[str, list[str | None]]) -> None:
    address, logins = asked
    client = registry_client(f"http://bob:p%40ss@{address}", SCRAM)
    client.call("GET", "/subjects")
    assert logins == [basic("bob:p@ss")]
    assert client.url == f"http://{address}"
    with pytest.raises(RegistryUnreachable) as raised:
        RegistryClient("http://bob:hidden@127.0.0.1:1").call("GET", "/subjects")
    assert "hidden" not in str(raised.value)


def test_a_login_is_not_sent_unencrypted_to_another_machine() -> None:
    with pytest.raises(ValueError, match=r"would be sent unencrypted.* use https://"):
        registry_client("http://registry.example:8081", SCRAM)
    registry_client("https://registry.example:8081", SCRAM)
    registry_client("http://registry.example:8081", ClientSecurity("SASL_PLAINTEXT", "PLAIN", "ann", "secret"))
    registry_client("http://registry.example:8081", None)
