"""Java's Admin client and classic groups: removal of members by instance id, list filters, and rejected requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import RunningBroker, broker
from tests.support.group_requests import Client, beat, commit, join, patient_find, sync
from tests.support.java_client import JavaError, JavaProgram

pytestmark = pytest.mark.needs("kafka")
UNKNOWN_MEMBER = 25


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker({"group.initial.rebalance.delay.ms": "0"}) as started:
        yield started


@pytest.fixture(scope="module")
def admin(running: RunningBroker) -> Iterator[JavaProgram]:
    with JavaProgram("GroupAdmin", running.bootstrap) as program:
        yield program


def static_member(client: Client, group: str, instance: str) -> tuple[str, int]:
    reply = join(client, group, 9, group_instance_id=instance)
    given = {"all_to": reply.member_id, "group_instance_id": instance, "protocol_name": reply.protocol_name}
    assert int(sync(client, group, reply.member_id, reply.generation_id, **given).error_code) == 0
    return reply.member_id, reply.generation_id


def refused(admin: JavaProgram, line: str) -> str:
    with pytest.raises(JavaError) as error:
        admin.ask(line)
    return error.value.name


def test_admin_client_removes_static_members(admin: JavaProgram, bootstrap: str, topic: str) -> None:
    topics = AdminClient({"bootstrap.servers": bootstrap})
    for future in topics.create_topics([NewTopic(name, 2, 1) for name in ("t", "u")]).values():
        future.result(60)
    client = Client(bootstrap)
    patient_find(client, topic)
    member, generation = static_member(client, topic, "one")
    commit(client, topic, member, generation, group_instance_id="one", topics=("t", "u"))
    assert admin.ask(f"describe {topic}") == "Stable consumer one"
    assert topic in admin.ask("list Stable Classic").split(",")
    assert topic in admin.ask("list - -").split(",")
    assert topic not in admin.ask("list Empty -").split(",")
    assert topic not in admin.ask("list - Consumer").split(",")
    assert refused(admin, f"delete {topic}") == "GroupNotEmptyException"
    assert refused(admin, f"forget {topic} t 0") == "GroupSubscribedToTopicException"
    admin.ask(f"forget {topic} u 0")
    assert refused(admin, f"remove {topic} nobody") == "UnknownMemberIdException"
    assert int(beat(client, topic, member, generation, "one").error_code) == 0
    admin.ask(f"remove {topic} one")
    assert int(beat(client, topic, member, generation, "one").error_code) == UNKNOWN_MEMBER
    assert admin.ask(f"describe {topic}") == "Empty consumer"
    assert topic in admin.ask("list Empty Classic").split(",")
    static_member(client, topic, "two")
    admin.ask(f"remove {topic}")
    assert admin.ask(f"describe {topic}") == "Empty consumer"
    admin.ask(f"forget {topic} t 0")
    admin.ask(f"delete {topic}")
    assert refused(admin, f"delete {topic}") == "GroupIdNotFoundException"
    assert refused(admin, f"describe {topic}") == "GroupIdNotFoundException"
    client.close()
