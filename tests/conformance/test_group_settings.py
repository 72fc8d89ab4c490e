"""A running broker applies changed dynamic group settings without a restart."""

from __future__ import annotations

import base64

from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import broker
from tests.differential.servers import Server
from tests.support.clock import wait_for

CONSUMER_GROUP_HEARTBEAT, FIND_COORDINATOR, INCREMENTAL_ALTER_CONFIGS = 68, 10, 44
BROKER = 4
FIRST, SECOND = (base64.urlsafe_b64encode(bytes([n] * 16)).decode().rstrip("=") for n in (1, 2))


def join(server: Server, group: str, member: str) -> tuple[int, int]:
    """(member epoch, number of assigned partitions)"""
    answer = server.ask(
        CONSUMER_GROUP_HEARTBEAT,
        1,
        {
            "group_id": group,
            "member_id": member,
            "member_epoch": 0,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 45_000,
            "subscribed_topic_names": ["orders"],
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
        },
    )
    assert answer["error_code"] == 0, answer
    return answer["member_epoch"], sum(len(t["partitions"]) for t in answer["assignment"]["topic_partitions"])


def test_a_changed_assignment_interval_takes_effect_without_a_restart() -> None:
    with broker({"group.consumer.assignment.interval.ms": "600000"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("orders", 4, 1)])["orders"].result(60)
        server = Server("headrace", running.port)
        find = {"key_type": 0, "coordinator_keys": ["a"]}
        wait_for(lambda: not server.ask(FIND_COORDINATOR, 4, find)["coordinators"][0]["error_code"], "the coordinator")
        assert join(server, "a", FIRST) == (2, 4)
        assert join(server, "a", SECOND) == (2, 0), "the next assignment is ten minutes away"
        setting = {"name": "group.consumer.assignment.interval.ms", "config_operation": 0, "value": "0"}
        everywhere = {"resource_type": BROKER, "resource_name": "", "configs": [setting]}
        server.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [everywhere], "validate_only": False})
        groups = running.broker.parts.coordinators.groups
        wait_for(
            lambda: not running.call(lambda: groups.settings.consumer_assignment_interval_ms),
            "the broker to apply the setting",
        )
        assert join(server, "a", FIRST)[0] == 3, "its second member is in the assignment now"
