"""Edge cases of the consumer protocol (KIP-848) that random histories do not reach, step by step.

Incomplete and impossible requests, the version in which the coordinator assigns member ids, static members that leave
and return, groups with their own settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.differential.histories import Step
from tests.support.group_requests import CONSUMER_BEAT, CONSUMER_DESCRIBE, LIST

DESCRIBE_CONFIGS, ALTER_CONFIGS, LIST_RESOURCES = 32, 44, 74
GROUP_RESOURCE = 32
SESSION, INTERVAL, ASSIGNMENT = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)


def beat(group: str, member: str, epoch: int = 0, version: int = 1, **changes: Any) -> Step:
    joins = epoch == 0
    body = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000 if joins else -1,
        "subscribed_topic_names": ["t"] if joins else None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [] if joins else None,
        **changes,
    }
    if version == 0:
        del body["subscribed_topic_regex"]
    return Step(CONSUMER_BEAT, version, body)


def describe(group: str) -> Step:
    return Step(CONSUMER_DESCRIBE, 1, {"group_ids": [group], "include_authorized_operations": True})


def bad_requests(group: str) -> list[Step]:
    wrong: list[dict[str, Any]] = [
        {"group_id": ""},
        {"group_id": " "},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout": -1},
        {"topic_partitions": None},
        {"topic_partitions": [{"topic_id": "<id of t>", "partitions": [0]}]},
        {"subscribed_topic_names": None},
        {"server_assignor": "mine"},
        {"server_assignor": ""},
        *({"subscribed_topic_names": None, "subscribed_topic_regex": bad} for bad in ("[", "(?=x)", "a{1001}", "(a")),
    ]
    return [
        *(beat(group, "m", **each) for each in wrong),
        describe(group),
        beat(group, "m", rebalance_timeout=-2),
        # A topic that the subscription names twice is read once.
        beat(group, "m", 2, subscribed_topic_names=["t", "t"]),
        beat(group, "nobody", -1, subscribed_topic_regex="["),
        beat(group, "nobody", 5, subscribed_topic_regex="["),
        beat(group, "m", 2, subscribed_topic_regex="["),
        describe(group),
    ]


def named_by_the_coordinator(group: str) -> list[Step]:
    return [beat(group, "", epoch, version=0, instance_id=name) for epoch in (2, -1, -2) for name in (None, "i")]


def static_members(group: str) -> list[Step]:
    def one(member: str, epoch: int, **changes: Any) -> Step:
        return beat(group, member, epoch, instance_id="i", **changes)

    return [
        one("a", 0),
        one("b", 0),
        one("a", 0),
        one("a", -2),
        describe(group),
        one("a", 2),
        one("b", 0),
        one("a", 2),
        one("b", -2),
        one("b", 0, rack_id="here"),
        describe(group),
        beat(group, "c", 0),
        one("b", 2),
        one("b", -1),
        beat(group, "c", 3),
        describe(group),
    ]


def settings_of_its_own(group: str) -> list[Step]:
    tried = [
        {SESSION: "2000"},
        {SESSION: "44999"},
        {SESSION: "60001"},
        {SESSION: "46000"},
        {INTERVAL: "4999"},
        {INTERVAL: "15001"},
        {INTERVAL: "15000"},
        {INTERVAL: "x"},
        {ASSIGNMENT: "15001"},
        {ASSIGNMENT: "10"},
        {"nothing.known": "1"},
    ]
    asked = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configuration_keys": [SESSION, INTERVAL]}
    described = Step(
        DESCRIBE_CONFIGS, 4, {"resources": [asked], "include_synonyms": True, "include_documentation": False}
    )
    back = _alter(group, {SESSION: None, INTERVAL: None, ASSIGNMENT: None}, delete=True)
    resources = Step(LIST_RESOURCES, 1, {"resource_types": [GROUP_RESOURCE]})
    return [described, *(_alter(group, each) for each in tried), described, resources, back, described]


def _alter(group: str, values: Mapping[str, str | None], *, delete: bool = False) -> Step:
    configs = [{"name": name, "config_operation": int(delete), "value": value} for name, value in values.items()]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": configs}
    return Step(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})


def lists(group: str) -> list[Step]:
    states: tuple[list[str], ...] = ([], ["Stable"], ["sTABLE"], ["Empty", "Assigning"], ["Reconciling"], ["nothing"])
    types: tuple[list[str], ...] = ([], ["consumer"], ["Consumer"], ["classic"], ["share", "consumer"], ["nothing"])
    return [
        beat(group, "a"),
        *(Step(LIST, 5, {"states_filter": s, "types_filter": t}) for s in states for t in types),
        beat(group, "a", -1),
        Step(LIST, 5, {"states_filter": ["empty"], "types_filter": ["consumer"]}),
    ]


EDGE_CASES = {
    "bad": bad_requests,
    "unnamed": named_by_the_coordinator,
    "static": static_members,
    "settings": settings_of_its_own,
    "lists": lists,
}
