"""Random histories: the same steps on Apache Kafka and on Headrace, every answer compared.

A step is one raw request in shared names: a value that a broker chooses (member id, topic id) has a name, `<m1>` or
`<id of t>`, and each side knows its own value for it. A request that has to wait (a join for other members) keeps a
connection of its own. Its answer is compared when it arrives, and both brokers must let it wait equally long.
"""

from __future__ import annotations

import dataclasses
import random
import re
import select
import socket
import struct
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from headrace.wire import codec
from headrace.wire.apis import api_name
from tests.differential import applied_changes
from tests.differential.applied_changes import is_change
from tests.differential.same_ids import SameIds, share_a_bucket
from tests.differential.servers import Server, differences
from tests.support.clock import PATIENCE_S, Stopwatch
from tests.support.group_requests import BEAT, COMMIT, CONSUMER_DESCRIBE, DESCRIBE, LIST, STREAMS_DESCRIBE

# How long both brokers must be silent until a request counts as waiting (`History.take`).
SETTLED_S = 0.06
FORGOTTEN_S = 0.5
# How long a difference must last until it counts, if the missing part may still arrive, and how much later than the
# other a broker may notice a timeout. A busy machine needs seconds. A real difference costs them once.
LATER_S = 20.0
JOIN, SYNC, CONSUMER_BEAT = 11, 14, 68
LOOKS = (DESCRIBE, CONSUMER_DESCRIBE, STREAMS_DESCRIBE, LIST)
# Messages and times, and values that identify one broker.
NOT_COMPARED = {
    "throttle_time",
    "error_message",
    "host",
    "port",
    "client_host",
    "acknowledge_error_message",
    "node_endpoints",
    "node_id",
}

# Stands for the id of a member that does not know its id yet.
_MADE_UP = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@dataclass(frozen=True)
class Step:
    api: int
    version: int
    body: dict[str, Any]
    # Name for a new member id in the answer.
    newcomer: str = ""
    # Steps with the same value share a connection, which stays open. Other steps have one each.
    connection: str = ""
    # The sender, for the client that chose the step.
    who: str = ""

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.body.items())
        return f"{api_name(self.api)} v{self.version}({said})".replace("x" * 4_000, "x…")


class Side:
    """One broker, and its values for the shared names."""

    def __init__(self, name: str, port: int, same_ids: SameIds | None = None) -> None:
        self.name = name
        self.port = port
        self.same_ids = same_ids
        self.values: dict[str, Any] = {}
        self.names: dict[Any, str] = {}
        self._kept: dict[str, socket.socket] = {}

    def know(self, name: str, value: Any) -> None:
        self.values[name] = value
        self.names[value] = name

    def forget(self) -> None:
        """Begins a new history: topics stay, members are forgotten."""
        for kept in self._kept.values():
            kept.close()
        self._kept.clear()
        for name, value in list(self.values.items()):
            if not name.startswith("<id of"):
                del self.values[name], self.names[value]

    def drop(self, connection: str) -> None:
        kept = self._kept.pop(connection, None)
        if kept is not None:
            kept.close()

    def send(self, step: Step) -> socket.socket:
        client = self._kept.get(step.connection)
        if client is None:
            client = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
            if step.connection:
                self._kept[step.connection] = client
        client.sendall(codec.encode_request(step.api, step.version, 1, "asker", self._own(step.body)))
        return client

    def ask(self, api: int, version: int, body: dict[str, Any]) -> Any:
        """Sends a request that is not compared."""
        with self.send(Step(api, version, body)) as client:
            answer = self.read(client, api, version)
        if is_change(api, body):
            self.wait_until_applied()
        return answer

    def wait_until_applied(self) -> None:
        applied_changes.wait_until_applied([Server(self.name, self.port).ask_once])

    @staticmethod
    def read(client: socket.socket, api: int, version: int) -> Any:
        (length,) = struct.unpack(">i", _exactly(client, 4))
        return codec.read_response(api, version, _exactly(client, length))[1]

    def _own(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._own(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._own(item) for item in value]
        return self.values.get(value, value) if isinstance(value, str) else value

    def shared(self, answer: Any, key: str = "") -> Any:
        """The answer in shared names."""
        if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
            return {
                f.name: self.shared(getattr(answer, f.name), f.name)
                for f in dataclasses.fields(answer)
                if f.name not in NOT_COMPARED
            }
        if isinstance(answer, tuple | list):
            return sorted((self.shared(each, key) for each in answer), key=repr)
        if isinstance(answer, timedelta):
            return answer // timedelta(milliseconds=1)
        if isinstance(answer, uuid.UUID | str):
            made_up = isinstance(answer, str) and _MADE_UP.search(answer)
            return self.names.get(answer, "<waiting>" if made_up else answer)
        if isinstance(answer, int) and not isinstance(answer, bool):
            return int(answer)
        return answer


def _heartbeat_of_unknown_member(group: str) -> dict[str, Any]:
    return {"group_id": group, "generation_id": 0, "member_id": "nobody", "group_instance_id": None}


def _exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data


@dataclass(eq=False)
class Exchange:
    step: Step
    number: int
    sockets: list[socket.socket]
    answers: list[Any] = field(default_factory=lambda: [None, None])
    # Since the last answer came.
    since: Stopwatch = field(default_factory=Stopwatch)

    @property
    def is_even(self) -> bool:
        return (self.answers[0] is None) == (self.answers[1] is None)

    @property
    def is_forgotten(self) -> bool:
        """Kafka never answers a join or sync whose member leaves or sends another one. Headrace answers with an
        error.
        """
        theirs, ours = self.answers
        let_go = theirs is None and ours is not None and self.step.api in (JOIN, SYNC) and ours.error_code in (25, 27)
        return let_go and self.since.has_run(FORGOTTEN_S)

    @property
    def is_let_go(self) -> bool:
        theirs, ours = self.answers
        waited = theirs is not None and ours is None and self.step.api in (JOIN, SYNC) and theirs.error_code == 27
        return waited and self.since.has_run(FORGOTTEN_S)

    @property
    def is_over(self) -> bool:
        return None not in self.answers


class NotComparable(Exception):
    """Kafka chose by chance (by the hash of an id that it generated), or the case is a known difference: from
    here on the two brokers may differ.
    """


class Model(Protocol):
    """Knowledge of a random client, from which it chooses its next step."""

    def next_step(self) -> Step: ...

    def heard(self, step: Step, answer: Any) -> None:
        """`answer` is in shared names."""

    def last_steps(self) -> list[Step]:
        """Steps that complete every waiting request."""


class History:
    def __init__(self, kafka: Side, ours: Side, adjust: Callable[[Step, Any], Any] = lambda _, answer: answer) -> None:
        self.sides = (kafka, ours)
        self.lines: list[str] = []
        self.waiting: list[Exchange] = []
        self._adjust = adjust
        self._refused_newcomer = self._refused_commit = False
        self._named: set[str] = set()
        for side in self.sides:
            side.forget()

    def take(self, step: Step, heard: Callable[[Step, Any], None]) -> None:
        exchange = Exchange(step, len(self.lines), self._send(step))
        self.lines.append(f"{len(self.lines)}. {step}")
        self.waiting.append(exchange)
        watch, is_settled = Stopwatch(), False
        while True:
            self._read(heard)
            self.waiting = [each for each in self.waiting if not each.is_forgotten]
            uneven = [each for each in self.waiting if not each.is_even]
            if not uneven and (exchange not in self.waiting or is_settled):
                return
            if not uneven and step.api in (JOIN, SYNC) and watch.has_run(SETTLED_S):
                # Both coordinators answer in order: a coordinator that answers this request has processed the step, and
                # lets it wait.
                for side in self.sides:
                    side.ask(BEAT, 3, _heartbeat_of_unknown_member(step.body["group_id"]))
                is_settled = True
            # Both brokers reject a new member of the consumer protocol if the classic group is full. But Kafka first
            # tells the waiting members of that group to rejoin. On Headrace they continue to wait.
            if self._refused_newcomer and any(each.is_let_go for each in uneven):
                raise NotComparable
            assert uneven or not watch.has_run(PATIENCE_S), f"neither broker answers step {exchange.number} of\n{self}"
            if uneven and watch.has_run(LATER_S):
                late = uneven[0]
                answered, silent = (0, 1) if late.answers[1] is None else (1, 0)
                raise AssertionError(
                    f"{self.sides[silent].name} does not answer step {late.number}, {self.sides[answered].name} says\n"
                    f"{late.answers[answered]}\nafter\n{self}"
                )

    def wait_on(self, heard: Callable[[Step, Any], None]) -> None:
        """Compares all requests that both brokers have answered by now. Neither may be much later than the other."""
        self._read(heard)
        self.waiting = [each for each in self.waiting if not each.is_forgotten]
        for late in [each for each in self.waiting if not each.is_even]:
            assert not late.since.has_run(LATER_S), f"step {late.number} is answered by one only in\n{self}"

    def _send(self, step: Step) -> list[socket.socket]:
        kafka, ours = self.sides
        if step.api == CONSUMER_BEAT and step.body["member_epoch"] == 0:
            self._named.add(step.body["member_id"])
        asked = kafka.send(step)
        if ours.same_ids is not None and step.newcomer and step.body["member_id"] == "":
            ours.same_ids.follow(kafka, step, asked)
        return [asked, ours.send(step)]

    def _read(self, heard: Callable[[Step, Any], None]) -> None:
        open_sockets = {
            exchange.sockets[at]: (exchange, at)
            for exchange in self.waiting
            for at in (0, 1)
            if exchange.answers[at] is None
        }
        for ready in select.select(list(open_sockets), [], [], 0.01)[0]:
            exchange, at = open_sockets[ready]
            side = self.sides[at]
            raw = side.read(ready, exchange.step.api, exchange.step.version)
            if not exchange.step.connection:
                ready.close()
            member_id = getattr(raw, "member_id", "")
            if exchange.step.newcomer and member_id and member_id not in side.names:
                side.know(exchange.step.newcomer, member_id)
            exchange.answers[at] = raw
            exchange.since.restart()
        for exchange in [each for each in self.waiting if each.is_over]:
            theirs, ours = self._shared(exchange)
            watch = Stopwatch()
            while theirs != ours and exchange.step.api in LOOKS and not watch.has_run(LATER_S):
                # Kafka answers some requests (a join that only returns the member id) before their records are
                # committed, and shows only committed records.
                time.sleep(0.05)
                step = exchange.step
                exchange.answers = [side.ask(step.api, step.version, step.body) for side in self.sides]
                theirs, ours = self._shared(exchange)
            if theirs != ours and exchange.step.api in LOOKS and self._refused_commit:
                # A commit that is rejected completely creates a group in Kafka's memory that Kafka does not write. It
                # becomes visible with the next write to the same partition.
                raise NotComparable
            if theirs != ours and len(self.waiting) > 1 and not exchange.since.has_run(LATER_S):
                continue  # it may name a member whose own answer has not arrived yet
            self.waiting.remove(exchange)
            if is_change(exchange.step.api, exchange.step.body):
                for side in self.sides:
                    side.wait_until_applied()
            if exchange.step.api == JOIN and theirs["leader"] != ours["leader"] and theirs["leader"] and ours["leader"]:
                raise NotComparable
            self.lines.append(f"   {exchange.number} -> {theirs}")
            if theirs != ours and self.sides[1].same_ids is not None and share_a_bucket(self._members()):
                raise NotComparable
            if theirs.get("error_code") == -1 and exchange.step.api == CONSUMER_BEAT:
                assert ours["error_code"] == 69
                raise NotComparable  # Kafka fails for a classic group that has not chosen its protocol yet
            if theirs != ours:
                found = "\n".join(differences(theirs, ours))
                raise AssertionError(f"step {exchange.number}:\n{found}\nHeadrace says\n{ours}\nin\n{self}")
            if exchange.step.api == CONSUMER_BEAT and theirs["error_code"] == 81:
                self._refused_newcomer = True
            if exchange.step.api == COMMIT and "'error_code': 12" in repr(theirs):
                self._refused_commit = True
            heard(exchange.step, theirs)

    def _shared(self, exchange: Exchange) -> list[Any]:
        both = zip(self.sides, exchange.answers, strict=True)
        return [self._adjust(exchange.step, side.shared(raw)) for side, raw in both]

    def _members(self) -> set[str]:
        return self._named | {value for value in self.sides[0].values.values() if isinstance(value, str)}

    def __str__(self) -> str:
        return "\n".join(self.lines).replace("x" * 4_000, "x…")


def play(history: History, model: Model, steps: int) -> None:
    for _ in range(steps):
        history.take(model.next_step(), model.heard)
    for step in model.last_steps():
        history.take(step, model.heard)


def mostly(choice: random.Random, usual: Any, *others: Any, odds: float = 0.12) -> Any:
    return choice.choice(others) if others and choice.random() < odds else usual
