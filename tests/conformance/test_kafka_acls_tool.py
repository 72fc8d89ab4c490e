# ruff: noqa: E501 (a command line is one line)
"""Our kafka-acls and Kafka's own on a broker with an authorizer: the same lines, the same exit code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import RunningBroker, broker
from tests.conformance.kafka_tool_calls import Call
from tests.conformance.kafka_tool_runs import check, ours_forked
from tests.reference.tools import KafkaTools, shared_tools
from tests.support.programs import Programs

OWN_WORDS = "ours names the operation that the type does not support"
CALLS = [
    Call("kafka-acls --add --allow-principal User:ann --operation Read --topic t-{who}"),
    Call("kafka-acls --add --allow-principal User:ann --operation Read --topic t-{who}"),
    Call("kafka-acls --add --allow-principal User:ann --deny-principal User:bob --deny-host 10.0.0.1 --operation Write --topic t-{who}", any_order=True),
    Call("kafka-acls --list --topic t-{who}", any_order=True),
    Call("kafka-acls --list --topic t-{who} --principal User:bob", any_order=True),
    Call("kafka-acls --list --topic t-{who} --principal User:nobody"),
    Call("kafka-acls --add --allow-principal User:ann --producer --topic q-{who} --transactional-id x-{who}", any_order=True),
    Call("kafka-acls --add --allow-principal User:ann --consumer --topic q-{who} --group g-{who}", any_order=True),
    Call("kafka-acls --add --allow-principal User:ann --operation All --topic pre-{who} --resource-pattern-type prefixed"),
    Call("kafka-acls --list --topic pre-{who} --resource-pattern-type match"),
    Call("kafka-acls --list --topic pre-{who}"),
    Call("kafka-acls --remove --topic t-{who} --allow-principal User:ann --operation Read --force"),
    Call("kafka-acls --remove --topic t-{who} --force"),
    Call("kafka-acls --list --topic t-{who}"),
    Call("kafka-acls --add --allow-principal User:ann --operation CreateTokens --user-principal User:u-{who}"),
    Call("kafka-acls --add --operation Read --topic t-{who}"),
    Call("kafka-acls --add --allow-principal User:ann --operation Read"),
    Call("kafka-acls --add --allow-principal User:ann --operation Read --topic t-{who} --resource-pattern-type any"),
    Call("kafka-acls --add --allow-principal User:ann --idempotent --topic t-{who}"),
    Call("kafka-acls --add --allow-principal User:ann --producer"),
    Call("kafka-acls --add --allow-principal User:ann --consumer --topic t-{who}"),
    Call("kafka-acls --add --principal User:ann --topic t-{who}"),
    Call("kafka-acls --add --allow-principal User:ann --operation ClusterAction --topic t-{who}", meant=OWN_WORDS, says="ResourceType TOPIC only supports operations [READ, WRITE, CREATE, DESCRIBE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS, ALL], not 'ClusterAction'"),
    Call("kafka-acls --list --add"),
]  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with broker(settings) as started:
        yield started


@pytest.fixture(scope="module")
def kafka_tools() -> KafkaTools:
    return shared_tools()


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    with Programs() as loaded:
        yield loaded


@pytest.mark.needs("kafka")
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_prints_what_kafkas_own_tool_prints(
    number: int, running: RunningBroker, kafka_tools: KafkaTools, programs: Programs, tmp_path: Path
) -> None:
    """In this order: later calls list and remove what earlier ones added."""
    check(CALLS[number], running.bootstrap, kafka_tools, programs, tmp_path)


def test_a_removal_asks_for_confirmation(running: RunningBroker, programs: Programs) -> None:
    words = ["kafka-acls", "--bootstrap-server", running.bootstrap, "--topic", "asked"]
    assert ours_forked(programs, [*words, "--add", "--allow-principal", "User:ann"], "").code == 0
    refused = ours_forked(programs, [*words, "--remove"], "n\n")
    assert refused.code == 0 and "Are you sure you want to delete all ACLs" in refused.out
    assert "User:ann" in ours_forked(programs, [*words, "--list"], "").out
    assert ours_forked(programs, [*words, "--remove"], "y\n").code == 0
    assert ours_forked(programs, [*words, "--list"], "").out == ""
