"""Table of requests: an API, a version, a body. Later requests may use values from earlier answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from headrace.wire.apis import api_name
from tests.differential.servers import Server
from tests.support.clock import PATIENCE_S, wait_for

Body = dict[str, Any]
MakeBody = Callable[[Server], Body]


@dataclass(frozen=True)
class Variant:
    name: str
    api_key: int
    version: int
    body: Body | MakeBody
    # Selects the part of the answer that is compared, if the whole answer is too much.
    only: Callable[[Any], Any] | None = None
    # Runs on each server before the request and is not compared.
    before: Callable[[Server], None] | None = None
    patience: float = PATIENCE_S

    @property
    def id(self) -> str:
        return f"{api_name(self.api_key)}-v{self.version}-{self.name}"

    def run(self, server: Server) -> Any:
        if self.before is not None:
            self.before(server)
        body = self.body(server) if callable(self.body) else self.body
        answer = server.ask(self.api_key, self.version, body, patience=self.patience)
        return self.only(answer) if self.only is not None and isinstance(answer, dict) else answer


def each_version(name: str, api_key: int, versions: Iterable[int], body: Body | MakeBody, **more: Any) -> list[Variant]:
    return [Variant(name, api_key, version, body, **more) for version in versions]


def create_topic(server: Server, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    answer = server.ask(19, 5, {"topics": [topic], "timeout": 10_000, "validate_only": False})
    assert answer["topics"][0]["error_code"] in (0, 36), answer

    def has_leaders() -> bool:
        found = server.ask(3, 5, {"topics": [{"name": name}], "allow_auto_topic_creation": False})["topics"][0]
        return len(found["partitions"]) == partitions and all(p["leader_id"] >= 0 for p in found["partitions"])

    wait_for(has_leaders, f"leaders of {name} on {server.name}")


def wait_for_coordinators(server: Server) -> None:
    """Waits until both internal topics exist and their coordinators answer."""

    def answer() -> bool:
        found = (
            server.ask(10, 2, {"key": "g", "key_type": 0})["error_code"],
            server.ask(10, 2, {"key": "t", "key_type": 1}),
        )
        if found[0] == 0 and found[1]["error_code"] == 0:
            heartbeat = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
            begun = server.ask(
                22,
                4,
                {"transactional_id": "warm", "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
            )
            return bool(server.ask(12, 3, heartbeat)["error_code"] == 25 and begun["error_code"] == 0)
        return False

    wait_for(answer, f"the coordinators of {server.name}")


def prepare(server: Server) -> None:
    """Creates the state that every variant may use."""
    from tests.differential.data_variants import batch, produce_body

    create_topic(server, "orders", 3)
    create_topic(server, "compacted", 1, {"cleanup.policy": "compact"})
    create_topic(server, "stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    create_topic(server, "scratch")
    create_topic(server, "small", 1, {"max.message.bytes": "500"})
    for partition, counts in ((0, (3, 2, 5)), (1, (1,))):
        for count in counts:
            answer = server.ask(0, 9, produce_body(partition, batch(count)))
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer
    wait_for_coordinators(server)
    for name in ("orders", "compacted", "stamped", "small", "scratch"):
        server.known[name] = server.topic_id(name)
