"""Random login histories on Apache Kafka 4.3.0 and on Headrace, and the requests that manage SCRAM credentials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.net.free_ports import free_port
from headrace.testing import broker
from tests.differential.login_history import MECHANISMS, PASSWORD, USER, history, run
from tests.differential.servers import Server
from tests.reference.kafka import ReferenceKafka
from tests.support.effort import rounds
from tests.support.sasl import LISTENERS

pytestmark = pytest.mark.needs("kafka")

MODULES = "org.apache.kafka.common.security"
PLAIN_USERS = f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
ADDED = [f"{name}=[name={USER},password={PASSWORD}]" for name in MECHANISMS[1:]]


@dataclass(frozen=True)
class Sides:
    """Ports of the SASL listeners, and the plaintext listeners as servers."""

    kafka: int
    ours: int
    kafka_plain: Server
    ours_plain: Server


def settings(listener: str) -> dict[str, str]:
    found = {
        f"listener.name.{listener}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"listener.name.{listener}.plain.sasl.jaas.config": PLAIN_USERS,
        "connection.failed.authentication.delay.ms": "5",
    }
    for mechanism in MECHANISMS[1:]:
        module = f"{MODULES}.scram.ScramLoginModule required;"
        found[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = module
    return found


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    directory: Path = tmp_path_factory.mktemp("logins")
    port = free_port()
    kafka = ReferenceKafka(
        directory,
        settings=settings("clients"),
        heap="512m",
        format_options=tuple(part for user in ADDED for part in ("--add-scram", user)),
    )
    for name in ("listeners", "advertised.listeners"):
        kafka.settings[name] += f",CLIENTS://127.0.0.1:{port}"
    kafka.settings["listener.security.protocol.map"] += ",CLIENTS:SASL_PLAINTEXT"
    with kafka, broker({**LISTENERS, **settings("clients")}) as running:
        ports = {one.name: one.port for one in running.broker.listeners.advertised}
        ours = Server("ours", ports["LOCAL"])
        from headrace.client.scram_users import user_from_argument

        upsertions = [user_from_argument(text).upsertion() for text in ADDED]
        ours.ask(51, 0, {"deletions": [], "upsertions": upsertions})
        yield Sides(port, ports["CLIENTS"], Server("kafka", kafka.port), ours)
        kafka.kill()


def test_random_logins_are_answered_as_in_kafka(sides: Sides) -> None:
    differ = []
    for seed in range(rounds(short=150, long=2000)):
        steps = history(seed)
        expected, found = run(sides.kafka, steps), run(sides.ours, steps)
        if found != expected:
            differ.append(f"seed {seed}: {steps}\n  kafka {expected}\n  ours  {found}")
    assert not differ, f"{len(differ)} histories differ:\n" + "\n".join(differ[:20])


def upsertion(name: str = "u", mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt") -> dict[str, Any]:
    body = {"name": name, "mechanism": mechanism, "iterations": iterations}
    return {**body, "salt": salt, "salted_password": b"p" * 32}


def deletion(name: str = "u", mechanism: int = 1) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


ALTERATIONS = [
    ([], [upsertion()]),
    ([], [upsertion(mechanism=2, iterations=16384)]),
    ([], [upsertion("v"), upsertion("w", 2)]),
    ([], [upsertion(iterations=4095)]),
    ([], [upsertion(iterations=16385)]),
    ([], [upsertion("")]),
    ([deletion("")], []),
    ([], [upsertion(mechanism=0)]),
    ([], [upsertion(mechanism=3)]),
    ([deletion(mechanism=9)], []),
    ([deletion("nobody")], []),
    ([deletion("v", 2)], []),
    ([], [upsertion(), upsertion()]),
    ([deletion("v"), deletion("v")], []),
    ([deletion("v")], [upsertion("v")]),
    ([], [upsertion("z"), upsertion("z", iterations=1)]),
    ([deletion("v")], []),
    ([], []),
]
QUESTIONS: list[list[str] | None] = [None, [], ["u"], ["v"], ["nobody"], ["u", "u"], ["u", "w", "nobody"], [""]]


def test_scram_credential_requests_are_answered_as_in_kafka(sides: Sides) -> None:
    differ = []

    def compare(api_key: int, body: dict[str, Any]) -> None:
        expected, found = (by_user(side.ask(api_key, 0, body)) for side in (sides.kafka_plain, sides.ours_plain))
        if found != expected:
            differ.append(f"{api_key} {body}\n  kafka {expected}\n  ours  {found}")

    for deletions, upsertions in ALTERATIONS:
        compare(51, {"deletions": deletions, "upsertions": upsertions})
        for users in QUESTIONS:
            compare(50, {"users": None if users is None else [{"name": user} for user in users]})
    assert not differ, f"{len(differ)} answers differ:\n" + "\n".join(differ[:20])


def by_user(answer: Any) -> Any:
    """Kafka lists users in the order of a hash map."""
    if isinstance(answer, dict):
        answer = {**answer, "results": sorted(answer["results"], key=lambda row: str(row["user"]))}
        for row in answer["results"]:
            if "credential_infos" in row:
                row["credential_infos"] = sorted(row["credential_infos"], key=lambda info: int(info["mechanism"]))
    return answer
