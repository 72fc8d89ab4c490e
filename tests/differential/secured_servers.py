"""Brokers with SASL/PLAIN users and an authorizer. Each request names the user that sends it."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any, Final

from headrace.wire import codec
from tests.differential.servers import CLOSED, NO_ANSWER, Server, plain, read_answer
from tests.support.clock import PATIENCE_S

ADMIN: Final = "admin"
PASSWORD: Final = "secret"
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
# The listener is named PLAINTEXT because the reference node uses that name.
SETTINGS: Final = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
}


def jaas(users: Iterable[str]) -> dict[str, str]:
    """The setting with the passwords of these users and of the administrator, which the brokers also use themselves."""
    known = "".join(f' user_{user}="{PASSWORD}"' for user in (ADMIN, *users))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    line = f'{module} username="{ADMIN}" password="{PASSWORD}"{known};'
    return {"listener.name.plaintext.plain.sasl.jaas.config": line}


class SecuredServer(Server):
    """`ask` sends requests as the administrator."""

    def send(self, frame: bytes | bytearray, api_key: int, version: int, patience: float = PATIENCE_S) -> Any:
        return self.send_as(ADMIN, frame, api_key, version, patience)

    def ask_as(self, user: str, api_key: int, version: int, body: dict[str, Any], patience: float = PATIENCE_S) -> Any:
        frame = codec.encode_request(api_key, version, 7, "differential", body)
        return self.send_as(user, frame, api_key, version, patience)

    def send_as(
        self, user: str, frame: bytes | bytearray, api_key: int, version: int, patience: float = PATIENCE_S
    ) -> Any:
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as client:
            self.log_in(client, user)
            client.settimeout(patience)
            return _exchange(client, frame, api_key, version)

    def ask_on(self, client: socket.socket, api_key: int, version: int, body: dict[str, Any]) -> Any:
        """Uses a connection that is logged in."""
        return _exchange(client, codec.encode_request(api_key, version, 7, "differential", body), api_key, version)

    def log_in(self, client: socket.socket, user: str) -> None:
        token = f"\0{user}\0{PASSWORD}".encode()
        for api_key, version, body in (
            (SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
            (SASL_AUTHENTICATE, 0, {"auth_bytes": token}),
        ):
            client.sendall(codec.encode_request(api_key, version, 1, "differential", body))
            answer = codec.read_response(api_key, version, read_answer(client))[1]
            assert not answer.error_code, f"{user} cannot log in to {self.name}: {answer}"


def _exchange(client: socket.socket, frame: bytes | bytearray, api_key: int, version: int) -> Any:
    client.sendall(frame)
    try:
        answer = read_answer(client)
    except TimeoutError:
        return NO_ANSWER
    except ConnectionError:
        return CLOSED
    return plain(codec.read_response(api_key, version, answer)[1])
