"""Each API by a principal without rights, with wrong rights and with the right ones: Headrace answers as Kafka.

The cells are generated from a table of requests and the rights that each needs. Both brokers have the same users and
ACLs. The test compares the error codes, their position, the visible names, and the authorized operations.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from headrace.handlers.dispatch.compatibility import KAFKA_4_3
from headrace.security.acl.model import ResourceType
from headrace.testing import broker
from tests.differential import authorization_admin_cases, authorization_data_cases, authorization_group_cases
from tests.differential.authorization_cells import Cell, cells, fill
from tests.differential.data_variants import batch, produce_body
from tests.differential.secured_servers import SETTINGS, SecuredServer, jaas
from tests.differential.servers import differences
from tests.differential.table import create_topic, wait_for_coordinators
from tests.reference.kafka import KEEPS_OLD_RECORDS, ReferenceKafka
from tests.support.clock import wait_for

pytestmark = pytest.mark.needs("kafka")

CELLS: Final = cells(
    [*authorization_data_cases.CASES, *authorization_group_cases.CASES, *authorization_admin_cases.CASES]
)
SHARE_FETCH: Final = 78
# APIs without cells, with the reason.
NOT_COMPARED: Final = {
    17: "opens a login",
    18: "opens a connection",
    36: "is the login",
    38: "compared by test_delegation_token_answers",
    39: "compared by test_delegation_token_answers",
    40: "compared by test_delegation_token_answers",
    41: "compared by test_delegation_token_answers",
    55: "Headrace has no Raft quorum; its answer names the controller",
    80: "Headrace has no Raft quorum",
    81: "Headrace has no Raft quorum",
}
SAME_SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
}
_COMPARED: Final = re.compile(
    r".*error_code|.*authorized_operations|name|topic|topic_name|group_id|transactional_id|partition_index|partition|"
    r"index|partition_id|resource_name|is_internal"
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecuredServer, SecuredServer]]:
    directory = tmp_path_factory.mktemp("authorization")
    settings = SETTINGS | SAME_SETTINGS | jaas(cell.user for cell in CELLS)
    ours = settings | {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"}
    with (
        ReferenceKafka(directory / "kafka", settings=settings | KEEPS_OLD_RECORDS, heap="512m") as kafka,
        broker(ours, data_dir=directory / "headrace") as headrace,
    ):
        servers = SecuredServer("Kafka", kafka.port), SecuredServer("Headrace", headrace.port)
        for server in servers:
            prepare(server)
        yield servers


def prepare(server: SecuredServer) -> None:
    """Creates the topics, groups and ACLs that the cells use."""
    wait_for(lambda: server.ask_once(3, 12, {"topics": []})["brokers"], f"{server.name} to be registered")
    doomed = sorted({name for cell in CELLS for name in doomed_topics(cell)})
    for name in ("orders", "hidden", "scratch", *doomed):
        create_topic(server, name)
        server.known[name] = server.topic_id(name)
    server.ask(0, 9, produce_body(0, batch()))
    wait_for_coordinators(server)
    share = {"key_type": 2, "coordinator_keys": ["grp:AAAAAAAAAAAAAAAAAAAAAQ:0"]}
    wait_for(
        lambda: not server.ask_once(10, 6, share)["coordinators"][0]["error_code"],
        f"the share coordinator of {server.name}",
    )
    for group, topic in (("readers", "orders"), ("readers", "hidden"), ("readers", "scratch")):
        commit(server, group, topic)
    for start in range(0, len(CREATIONS), 500):
        answer = server.ask(30, 3, {"creations": CREATIONS[start : start + 500]})
        refused = [(CREATIONS[start + at], row) for at, row in enumerate(answer["results"]) if row["error_code"]]
        assert not refused, refused[0]


def doomed_topics(cell: Cell) -> list[str]:
    words = repr(cell.case.body)
    return [fill(found, cell.user) for found in re.findall(r"doomed-\{cell\}", words)]


def commit(server: SecuredServer, group: str, topic: str) -> None:
    partition = {
        "partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "",
    }  # fmt: skip
    body = {
        "group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [partition]}],
    }  # fmt: skip
    answer = server.ask(8, 8, body)
    assert not answer["topics"][0]["partitions"][0]["error_code"], answer


CREATIONS: Final = [
    {
        "resource_type": int(grant.right.resource_type),
        "resource_name": fill(grant.right.name, cell.user),
        "resource_pattern_type": int(grant.pattern),
        "principal": f"User:{cell.user}",
        "host": "*",
        "operation": int(grant.right.operation),
        "permission_type": int(grant.permission),
    }
    for cell in CELLS
    for grant in cell.grants
]


def ask(server: SecuredServer, cell: Cell) -> Any:
    case = cell.case
    answer = server.ask_as(cell.user, case.api_key, case.version, cell.request(server), case.patience_s)
    if case.api_key == SHARE_FETCH and isinstance(answer, dict):
        # Kafka omits a partition that it cannot lock at once. Only partitions with an error are always in the answer.
        for topic in answer["responses"]:
            topic["partitions"] = [row for row in topic["partitions"] if row["error_code"]]
    return answer


def verdict(answer: Any) -> Any:
    """The parts of an answer that show a client what it may do."""
    if isinstance(answer, dict):
        found = {
            key: value
            for key, value in ((key, _part(key, value)) for key, value in answer.items())
            if value is not None
        }
        return found or None
    return answer


def _part(key: str, value: Any) -> Any:
    if key == "configs":  # Headrace has settings of its own
        return None
    if isinstance(value, list):
        rows = [row for row in (verdict(one) if isinstance(one, dict) else None for one in value) if row is not None]
        return sorted(rows, key=repr) or None
    if isinstance(value, dict):
        return verdict(value)
    return value if _COMPARED.fullmatch(key) else None


def test_every_api_has_cells() -> None:
    assert len(CELLS) >= 400
    assert len({cell.id for cell in CELLS}) == len(CELLS)
    assert KAFKA_4_3.keys() - {cell.case.api_key for cell in CELLS} == NOT_COMPARED.keys()


def test_every_resource_type_has_cells() -> None:
    assert {grant.right.resource_type for cell in CELLS for grant in cell.grants} >= {
        ResourceType.TOPIC,
        ResourceType.GROUP,
        ResourceType.CLUSTER,
        ResourceType.TRANSACTIONAL_ID,
    }


@pytest.mark.parametrize(
    "group",
    [list(of_case) for _, of_case in itertools.groupby(CELLS, lambda cell: cell.case)],
    ids=lambda g: g[0].case.id,
)
def test_requests_are_authorized_as_in_kafka(both: tuple[SecuredServer, SecuredServer], group: list[Cell]) -> None:
    before = group[0].case.before
    if before is not None:
        for server in both:
            before(server)
    problems = []
    for cell in group:
        kafka, ours = (verdict(ask(server, cell)) for server in both)
        problems += [f"{cell.kind}: {line}" for line in differences(kafka, ours)]
    assert not problems, "\n".join(problems)
