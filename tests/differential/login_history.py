"""Random logins, step by step on Apache Kafka and on Headrace, with valid and invalid steps."""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.security.sasl.mechanism import Denied
from headrace.security.sasl.plain import client_token
from headrace.security.sasl.scram import ScramClient
from headrace.security.sasl.scram_credentials import SCRAM_MECHANISMS
from headrace.wire import codec
from headrace.wire.apis import ApiKey
from tests.differential.servers import plain, read_answer

USER, PASSWORD = "ann", "sesame"
CLOSED, SILENT = "closed", "silent"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Steps without an answer are rare. After this time an answer counts as missing.
_PATIENCE_S = 1.5


@dataclass(frozen=True)
class Step:
    """`kind` and its parameters. The step contains everything it needs, so both servers get the same bytes."""

    kind: str
    value: str = ""
    version: int = 0


@dataclass
class Login:
    """One connection, and the state of its client."""

    port: int
    mechanism: str = "PLAIN"
    client: ScramClient | None = None
    last: bytes = b""
    socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE_S)

    def take(self, step: Step) -> Any:
        if step.kind == "shake":
            self.mechanism = step.value
        sent = _SENT[step.kind](self, step)
        try:
            self.socket.sendall(sent)
            answer = read_answer(self.socket)
        except TimeoutError:
            return SILENT
        except (ConnectionError, OSError):
            return CLOSED
        return self._read(step, answer)

    def _read(self, step: Step, answer: bytes) -> Any:
        if step.kind == "bare":
            self.last = answer
            return _shape(answer)
        api_key = {"versions": 18, "shake": 17, "wrapped": 36, "cluster": 60, "metadata": 3}[step.kind]
        version = step.version
        if step.kind == "versions":
            return ("versions", int.from_bytes(answer[4:6], "big", signed=True))
        found = plain(codec.read_response(api_key, version, answer)[1])
        if step.kind == "wrapped":
            self.last = found["auth_bytes"]
            return (int(found["error_code"]), found["error_message"], _shape(self.last), found.get("session_lifetime"))
        if step.kind == "shake":
            return (int(found["error_code"]), sorted(found["mechanisms"]))
        if step.kind == "cluster":
            return ("cluster", int(found["error_code"]))
        return ("metadata", len(found["brokers"]) > 0)

    def token(self, what: str) -> bytes:
        if what in _PLAIN:
            return _PLAIN[what]
        known = SCRAM_MECHANISMS.get(self.mechanism, SCRAM_MECHANISMS["SCRAM-SHA-256"])
        if what in _FIRST:
            name, password = _FIRST[what]
            self.client = ScramClient(known, name, password, nonce="client-nonce")
            return self.client.first()
        if what in _ODD_FIRST:
            return _ODD_FIRST[what]
        return self._final(what)

    def _final(self, what: str) -> bytes:
        if self.client is None:
            return b"c=biws,r=abc,p=AAAA"
        try:
            final = self.client.final(bytes(self.last))
        except Denied:
            return b"c=biws,r=abc,p=AAAA"
        change = {
            "final": (b"", b""),
            "final nonce": (b"r=client-nonce", b"r=client-nonse"),
            "final proof": (b"p=", b"p=AAAA"),
        }
        return final.replace(*change[what]) if change[what][0] else final


def _shape(token: bytes) -> str:
    """The parts of an answer that do not differ from login to login."""
    return re.sub(r"(r=client-nonce|s=|v=)[^,]*", r"\1…", token.decode(errors="replace"))


_PLAIN = {
    "right": client_token(USER, PASSWORD),
    "wrong": client_token(USER, "x"),
    "unknown": client_token("nobody", PASSWORD),
    "own id": f"{USER}\0{USER}\0{PASSWORD}".encode(),
    "other id": f"admin\0{USER}\0{PASSWORD}".encode(),
    "two fields": f"{USER}\0{PASSWORD}".encode(),
    "four fields": f"\0{USER}\0{PASSWORD}\0".encode(),
    "no user": b"\0\0x",
    "no password": f"\0{USER}\0".encode(),
    "nothing": b"",
}
_FIRST = {"first": (USER, PASSWORD), "first wrong": (USER, "x")}
_ODD_FIRST = {
    "first other id": f"n,a=admin,n={USER},r=client-nonce".encode(),
    "first own id": f"n,a={USER},n={USER},r=client-nonce".encode(),
    "first bound": f"p=tls-unique,,n={USER},r=client-nonce".encode(),
    "first cut": b"n,,n=",
}
_FINAL = ("final", "final nonce", "final proof")
_TOKENS = (*_PLAIN, *_FIRST, *_ODD_FIRST, *_FINAL)


def _request(api_key: int, version: int, body: dict[str, Any]) -> bytes:
    return bytes(codec.encode_request(api_key, version, 7, "login", body))


def _versions(login: Login, step: Step) -> bytes:
    if step.version > 4:
        return b"\0\0\0\x0d\0\x12" + step.version.to_bytes(2, "big") + b"\0\0\0\7\0\1a\0\0"
    return _request(ApiKey.API_VERSIONS, step.version, {"client_software_name": "a", "client_software_version": "1"})


def _bare(login: Login, step: Step) -> bytes:
    token = login.token(step.value)
    return len(token).to_bytes(4, "big") + token


_SENT: dict[str, Callable[[Login, Step], bytes]] = {
    "versions": _versions,
    "shake": lambda _, step: _request(ApiKey.SASL_HANDSHAKE, step.version, {"mechanism": step.value}),
    "wrapped": lambda login, step: _request(
        ApiKey.SASL_AUTHENTICATE, step.version, {"auth_bytes": login.token(step.value)}
    ),
    "bare": _bare,
    "cluster": lambda _, step: _request(60, 0, {"include_cluster_authorized_operations": False}),
    "metadata": lambda _, step: _request(
        3,
        step.version,
        {"topics": [], "allow_auto_topic_creation": False, "include_cluster_authorized_operations": False,
         "include_topic_authorized_operations": False},
    ),
}  # fmt: skip


def history(seed: int) -> list[Step]:
    """Mostly in the right order, so that many logins get far."""
    chance = random.Random(seed)
    steps: list[Step] = []
    if chance.random() < 0.5:
        steps.append(Step("versions", version=chance.choice((0, 1, 2, 3, 4, 99))))
    mechanism = chance.choice((*MECHANISMS, *MECHANISMS, "GSSAPI", "OAUTHBEARER", "plain", ""))
    version = chance.choice((0, 1, 1))
    steps.append(Step("shake", mechanism, version))
    kind = "wrapped" if version else "bare"
    right = ["right"] if mechanism == "PLAIN" else ["first", "final"]
    tokens = [chance.choice(_TOKENS) if chance.random() < 0.35 else token for token in right]
    steps += [Step(kind, token, chance.choice((0, 1, 2))) for token in tokens]
    steps.append(Step("cluster"))
    for _ in range(chance.choice((0, 0, 1, 2))):
        steps.insert(chance.randrange(len(steps) + 1), _odd_step(chance))
    return steps


def _odd_step(chance: random.Random) -> Step:
    return chance.choice(
        (
            Step("versions", version=3),
            Step("shake", chance.choice(MECHANISMS), chance.choice((0, 1))),
            Step("wrapped", chance.choice(_TOKENS), chance.choice((0, 1, 2))),
            Step("bare", chance.choice(_TOKENS)),
            Step("cluster"),
            Step("metadata", version=chance.choice((1, 9))),
        )
    )


def run(port: int, steps: list[Step]) -> list[Any]:
    """The answers, up to the end of the connection or of the steps."""
    login = Login(port)
    answers: list[Any] = []
    try:
        for step in steps:
            answers.append(login.take(step))
            if answers[-1] in (CLOSED, SILENT):
                break
    finally:
        login.socket.close()
    return answers
