"""Broker keys of streams groups (KIP-1071)."""

from __future__ import annotations

from headrace.config.key import INT_MAX, Key, Type, Update
from headrace.config.rules import at_least

INT = Type.INT
CLUSTER_WIDE = Update.CLUSTER_WIDE

KEYS = (
    Key(
        "group.streams.session.timeout.ms",
        INT,
        45_000,
        "The coordinator removes a member of a streams group that sends no heartbeat for this time.",
        at_least(1),
    ),
    Key(
        "group.streams.min.session.timeout.ms",
        INT,
        45_000,
        "Minimum session timeout that a streams group can set.",
        at_least(1),
    ),
    Key(
        "group.streams.max.session.timeout.ms",
        INT,
        60_000,
        "Maximum session timeout that a streams group can set.",
        at_least(1),
    ),
    Key(
        "group.streams.heartbeat.interval.ms",
        INT,
        5000,
        "Heartbeat interval that the coordinator gives to members of a streams group.",
        at_least(1),
    ),
    Key(
        "group.streams.min.heartbeat.interval.ms",
        INT,
        5000,
        "Minimum heartbeat interval that a streams group can set.",
        at_least(1),
    ),
    Key(
        "group.streams.max.heartbeat.interval.ms",
        INT,
        15_000,
        "Maximum heartbeat interval that a streams group can set.",
        at_least(1),
    ),
    Key(
        "group.streams.assignment.interval.ms",
        INT,
        1000,
        "Minimum time between two assignments of a streams group.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "group.streams.min.assignment.interval.ms",
        INT,
        0,
        "Minimum assignment interval that a streams group can set.",
        at_least(0),
    ),
    Key(
        "group.streams.max.assignment.interval.ms",
        INT,
        15_000,
        "Maximum assignment interval that a streams group can set.",
        at_least(0),
    ),
    Key(
        "group.streams.max.size",
        INT,
        INT_MAX,
        "Maximum number of members of a streams group.",
        at_least(1),
    ),
    Key(
        "group.streams.num.standby.replicas",
        INT,
        0,
        "Number of standby replicas of each task.",
        at_least(0),
    ),
    Key(
        "group.streams.max.standby.replicas",
        INT,
        2,
        "Maximum number of standby replicas that a streams group can set.",
        at_least(0),
    ),
    Key(
        "group.streams.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long the first rebalance of a new streams group waits for more members.",
        at_least(0),
    ),
)
