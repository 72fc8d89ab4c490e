"""Three instances of the schema registry on one topic: concurrent registrations, a killed leader, a paused leader.

Each schema has one id and each id one schema. An instance finds every schema that it has confirmed. A new instance
reads every schema that any instance has confirmed.
"""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from headrace.net.free_ports import free_port
from headrace.testing.in_process import RunningBroker, broker
from tests.support.clock import Stopwatch, wait_for
from tests.support.effort import is_long, rounds
from tests.support.registry import ask, registry

SETTINGS = {"group.min.session.timeout.ms": "500"}
SESSION_MS = 1500
_PATIENCE_S = 300 if is_long() else 120
_READY = "schema registry ready on "


class Instance:
    """One `headrace registry start` process."""

    def __init__(self, bootstrap: str, port: int) -> None:
        command = [sys.executable, "-m", "headrace.cli", "registry", "start", "--listen", f"127.0.0.1:{port}"]
        options = ["--bootstrap", bootstrap, "--session-timeout-ms", str(SESSION_MS)]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(_READY), line
        self.url = line.removeprefix(_READY).strip()

    def start_again(self, bootstrap: str) -> None:
        again = Instance(bootstrap, urlsplit(self.url).port or 0)
        assert again.url == self.url
        self.process = again.process

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def instances(running: RunningBroker, count: int) -> Iterator[list[Instance]]:
    started: list[Instance] = []
    try:
        for _ in range(count):
            started.append(Instance(running.bootstrap, free_port()))
        yield sorted(started, key=lambda each: each.url)
    finally:
        for each in started:
            each.process.send_signal(signal.SIGCONT)
            each.kill()


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with broker(SETTINGS) as started:
        yield started


def schema(number: int) -> str:
    return json.dumps({"type": "fixed", "name": "F", "size": number})


class Client(threading.Thread):
    """Registers schemas one after the other. If an instance fails, it uses the next."""

    def __init__(self, urls: list[str], first: int, numbers: list[int]) -> None:
        super().__init__(daemon=True)
        self.urls, self.at, self.numbers = urls, first, numbers
        self.answers: list[tuple[int, int]] = []
        self.unreadable: list[int] = []
        self.failures: list[str] = []

    def run(self) -> None:
        for number in self.numbers:
            watch = Stopwatch()
            while not self._registered(number):
                self.at += 1
                if watch.has_run(60):
                    self.failures.append(f"schema {number} was not registered within 60 s")
                    return

    def _registered(self, number: int) -> bool:
        url = self.urls[self.at % len(self.urls)]
        body = {"schema": schema(number)}
        try:
            status, answer = ask(url, "POST", f"/subjects/s{number % 50}-{number}/versions", body)
            if status != 200:
                return False
            self.answers.append((number, answer["id"]))
            # An instance finds the schemas that it has confirmed.
            found, _ = ask(url, "GET", f"/schemas/ids/{answer['id']}")
            if found != 200:
                self.unreadable.append(answer["id"])
        except (OSError, http.client.HTTPException):
            return len(self.answers) > 0 and self.answers[-1][0] == number
        return True


def checked(clients: list[Client], running: RunningBroker) -> None:
    for each in clients:
        each.join(2 * _PATIENCE_S)
        assert not each.is_alive()
        assert not each.failures, each.failures
        assert not each.unreadable, f"ids that their own instance did not find: {each.unreadable[:5]}"
    answers = [answer for each in clients for answer in each.answers]
    by_schema: dict[int, int] = {}
    by_id: dict[int, int] = {}
    for number, id_ in answers:
        assert by_schema.setdefault(number, id_) == id_, f"schema {number} has the ids {by_schema[number]} and {id_}"
        assert by_id.setdefault(id_, number) == number, f"id {id_} is that of schemas {by_id[id_]} and {number}"
    with registry(running.bootstrap, group="fresh") as fresh:
        for number, id_ in by_schema.items():
            status, found = fresh.ask("GET", f"/schemas/ids/{id_}")
            assert status == 200, f"id {id_} was answered and is lost"
            assert json.loads(found["schema"])["size"] == number


@pytest.mark.chaos
def test_kills_of_any_instance_lose_no_schema_and_no_id_is_assigned_twice(running: RunningBroker) -> None:
    """Each instance is killed in turn, the leader first, and started again on its port."""
    count, kills = rounds(short=240, long=10_000), 12 if is_long() else 3
    with instances(running, 3) as three:
        urls = [each.url for each in three]
        # Two clients send each schema, through different instances.
        clients = [Client(urls, index, list(range(1 + index // 2, count, 3))) for index in range(6)]
        for each in clients:
            each.start()
        for number in range(kills):
            due = 2 * count * (number + 1) // (kills + 2)
            wait_for(
                lambda due=due: sum(len(each.answers) for each in clients) >= due,
                f"{due} registrations",
                within=_PATIENCE_S,
            )
            three[number % 3].kill()
            three[number % 3].start_again(running.bootstrap)
        checked(clients, running)


@pytest.mark.chaos
def test_a_resumed_old_leader_cannot_write(running: RunningBroker) -> None:
    with instances(running, 2) as (first, second):
        status, answer = ask(first.url, "POST", "/subjects/a/versions", {"schema": schema(1)})
        assert (status, answer["id"]) == (200, 1)
        first.process.send_signal(signal.SIGSTOP)
        clients = [Client([second.url], 0, list(range(2, 12)))]
        clients[0].start()
        clients[0].join(60)
        first.process.send_signal(signal.SIGCONT)
        clients.append(Client([first.url], 0, list(range(5, 20))))
        clients[1].start()
        checked(clients, running)
