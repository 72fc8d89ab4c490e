"""Delegation tokens (APIs 38–41): each request by an owner, a renewer, a user with rights and a user without, on both
brokers. Headrace answers as Kafka."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from headrace.kernel.errors import ErrorCode
from headrace.testing import broker
from headrace.wire import codec
from tests.differential.secured_servers import ADMIN, SETTINGS, SecuredServer, jaas
from tests.differential.servers import differences, plain, read_answer
from tests.reference.kafka import ReferenceKafka
from tests.support.clock import PATIENCE_S, wait_for

pytestmark = pytest.mark.needs("kafka")

CREATE, RENEW, EXPIRE, DESCRIBE, CREATE_ACLS = 38, 39, 40, 41, 30
# anna owns tokens, bert may renew some, carl has no rights, dora may create and describe tokens of anna, emil may
# describe every token.
USERS: Final = ("anna", "bert", "carl", "dora", "emil", ADMIN)
USER_TYPE, TOKEN_TYPE = 7, 6
CREATE_TOKENS, DESCRIBE_TOKENS, DESCRIBE_OPERATION = 13, 14, 8
BERT: Final = [{"principal_type": "User", "principal_name": "bert"}]
TOKEN_SETTINGS: Final = {
    "delegation.token.secret.key": "of both",
    "delegation.token.max.lifetime.ms": "86400000",
    "delegation.token.expiry.time.ms": "14400000",
}
# Time that a test may take between a request and the look at its answer.
COARSE_MS: Final = 600_000
# The version of CreateDelegationToken from which headers have tagged fields.
FIRST_FLEXIBLE: Final = 2


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecuredServer, SecuredServer]]:
    directory = tmp_path_factory.mktemp("tokens")
    settings = SETTINGS | TOKEN_SETTINGS | jaas(user for user in USERS if user != ADMIN)
    ours = settings | {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"}
    with (
        ReferenceKafka(directory / "kafka", settings=settings, heap="384m") as kafka,
        broker(ours, data_dir=directory / "headrace") as headrace,
    ):
        servers = SecuredServer("Kafka", kafka.port), SecuredServer("Headrace", headrace.port)
        for server in servers:
            prepare(server)
        yield servers


def prepare(server: SecuredServer) -> None:
    wait_for(lambda: server.ask_once(3, 12, {"topics": []})["brokers"], f"{server.name} to be registered")
    rights = [
        ("dora", USER_TYPE, "User:anna", CREATE_TOKENS),
        ("dora", USER_TYPE, "User:anna", DESCRIBE_TOKENS),
        ("emil", TOKEN_TYPE, "*", DESCRIBE_OPERATION),
    ]
    creations = [
        {
            "resource_type": kind,
            "resource_name": name,
            "resource_pattern_type": 3,
            "principal": f"User:{user}",
            "host": "*",
            "operation": operation,
            "permission_type": 3,
        }
        for user, kind, name, operation in rights
    ]
    answer = server.ask(CREATE_ACLS, 3, {"creations": creations})
    assert not any(row["error_code"] for row in answer["results"]), answer
    # Both kinds of tokens of anna, for the requests that follow.
    for name, renewers in (("own", []), ("shared", BERT)):
        server.known[name] = new_token(server, renewers)


def new_token(server: SecuredServer, renewers: list[dict[str, str]]) -> bytes:
    """The HMAC of a new token of anna, once the broker knows it."""
    made = server.ask_as("anna", CREATE, 3, creation(renewers=renewers))
    assert not made["error_code"], made
    wait_for(lambda: made["token_id"] in ids(server), f"{server.name} to know the token")
    found: bytes = made["hmac"]
    return found


def ids(server: SecuredServer) -> list[str]:
    return [token["token_id"] for token in server.ask_as(ADMIN, DESCRIBE, 3, {"owners": None})["tokens"]]


def creation(**changed: Any) -> dict[str, Any]:
    return {
        "owner_principal_type": None,
        "owner_principal_name": None,
        "renewers": [],
        "max_lifetime": -1,
        **changed,
    }


def verdict(answer: Any) -> Any:
    """An answer without ids and digests. Times are shown as their distance from now, in steps of ten minutes."""
    if not isinstance(answer, dict):
        return answer
    now_ms = int(time.time() * 1000)
    found: dict[str, Any] = {}
    for key, value in answer.items():
        if key in ("token_id", "hmac", "throttle_time"):
            continue
        if key.endswith("_timestamp"):
            found[key] = _distance(value, now_ms)
        elif isinstance(value, list):
            found[key] = sorted((verdict(row) for row in value), key=repr)
        else:
            found[key] = value
    return found


def _distance(value: Any, now_ms: int) -> Any:
    ms = int(value.timestamp() * 1000) if hasattr(value, "timestamp") else value
    return ms if not isinstance(ms, int) or ms <= 0 else round((ms - now_ms) / COARSE_MS)


CREATIONS: Final = {
    "own": creation(),
    "with a renewer": creation(renewers=BERT),
    "renewer of another type": creation(renewers=[{"principal_type": "Group", "principal_name": "bert"}]),
    "short life": creation(max_lifetime=3_600_000),
    "no life": creation(max_lifetime=0),
    "longer than allowed": creation(max_lifetime=864_000_000),
    "for anna": creation(owner_principal_type="User", owner_principal_name="anna"),
    "for carl": creation(owner_principal_type="User", owner_principal_name="carl"),
}
# Requests that Kafka takes and Headrace refuses.
STRICTER: Final = {
    # Kafka makes a token of the requester. A service that acts for others would hand out its own rights.
    "owner without a name": (creation(owner_principal_type="User", owner_principal_name=""), ErrorCode.invalid_request),
    # Kafka forgets the type at the login.
    "owner of another type": (
        creation(owner_principal_type="Group", owner_principal_name="anna"),
        ErrorCode.invalid_principal_type,
    ),
}
OWNERS: Final = {
    "all": None,
    "none": [],
    "anna": [{"principal_type": "User", "principal_name": "anna"}],
    "anna and carl": [
        {"principal_type": "User", "principal_name": "anna"},
        {"principal_type": "User", "principal_name": "carl"},
    ],
    "unknown": [{"principal_type": "User", "principal_name": "zoe"}],
}
PERIODS: Final = {"default": -1, "hour": 3_600_000, "ten days": 864_000_000, "zero": 0}
TOKENS: Final = ("own", "shared", "unknown")


def expiry(server: SecuredServer, user: str, body: dict[str, Any]) -> dict[str, int]:
    """The answer to ExpireDelegationToken v1, read by hand: kio refuses the time -1 of an error."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
        server.log_in(client, user)
        client.sendall(codec.encode_request(EXPIRE, 1, 7, "differential", body))
        _, error, ends_ms, _ = struct.unpack(">ihqi", read_answer(client))
    return {"error_code": error, "expiry_timestamp": _distance(ends_ms, int(time.time() * 1000))}


def creation_answer(server: SecuredServer, user: str, version: int, body: dict[str, Any]) -> Any:
    """The verdict of CreateDelegationToken. Of an error only its code: kio refuses the times -1 of Kafka's answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
        server.log_in(client, user)
        client.sendall(codec.encode_request(CREATE, version, 7, "differential", body))
        answer = read_answer(client)
    (error,) = struct.unpack_from(">h", answer, 5 if version >= FIRST_FLEXIBLE else 4)
    if error:
        return {"error_code": error}
    return verdict(plain(codec.read_response(CREATE, version, answer)[1]))


def compared(both: tuple[SecuredServer, SecuredServer], user: str, api_key: int, version: int, body: Any) -> list[str]:
    kafka, ours = (
        verdict(server.ask_as(user, api_key, version, body(server) if callable(body) else body)) for server in both
    )
    return list(differences(kafka, ours))


@pytest.mark.parametrize("user", USERS)
def test_descriptions(both: tuple[SecuredServer, SecuredServer], user: str) -> None:
    problems = [
        f"{name} v{version}: {line}"
        for (name, owners), version in itertools.product(OWNERS.items(), (1, 2, 3))
        for line in compared(both, user, DESCRIBE, version, {"owners": owners})
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("user", USERS)
def test_renewals(both: tuple[SecuredServer, SecuredServer], user: str) -> None:
    problems = []
    for token, (name, period), version in itertools.product(TOKENS, PERIODS.items(), (1, 2)):

        def body(server: SecuredServer, token: str = token, period: int = period) -> dict[str, Any]:
            return {"hmac": server.known.get(token, b"unknown"), "renew_period": period}

        problems += [f"{token} {name} v{version}: {line}" for line in compared(both, user, RENEW, version, body)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("user", USERS)
def test_creations(both: tuple[SecuredServer, SecuredServer], user: str) -> None:
    problems = []
    for name, body in CREATIONS.items():
        kafka, ours = (creation_answer(server, user, 3, body) for server in both)
        problems += [f"{name}: {line}" for line in differences(kafka, ours)]
    for version in (1, 2):
        body = {"renewers": BERT, "max_lifetime": -1}
        kafka, ours = (creation_answer(server, user, version, body) for server in both)
        problems += [f"v{version}: {line}" for line in differences(kafka, ours)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", STRICTER)
def test_owners_that_only_kafka_takes(both: tuple[SecuredServer, SecuredServer], name: str) -> None:
    body, refusal = STRICTER[name]
    kafka, ours = (creation_answer(server, ADMIN, 3, body) for server in both)
    assert not kafka["error_code"], kafka
    assert ours == {"error_code": int(refusal)}


@pytest.mark.parametrize("user", USERS)
def test_expiries(both: tuple[SecuredServer, SecuredServer], user: str) -> None:
    problems = []
    for renewers, (name, period) in itertools.product(([], BERT), {**PERIODS, "gone": -2}.items()):
        for server in both:
            server.known["doomed"] = new_token(server, renewers)
        kind = "shared" if renewers else "own"

        def body(server: SecuredServer, period: int = period) -> dict[str, Any]:
            return {"hmac": server.known["doomed"], "expiry_time_period": period}

        kafka, ours = (expiry(server, user, body(server)) for server in both)
        problems += [f"{kind} {name}: {line}" for line in differences(kafka, ours)]
    unknown = {"hmac": b"unknown", "expiry_time_period": -1}
    kafka, ours = (expiry(server, user, unknown) for server in both)
    problems += [f"unknown: {line}" for line in differences(kafka, ours)]
    assert not problems, "\n".join(problems)
