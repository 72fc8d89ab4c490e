"""Broker keys of streams groups: known and shown, because the keys of a group inherit from them."""

from __future__ import annotations

from headrace.config.effect import harmless
from headrace.config.key import INT_MAX, Key, Type, Update
from headrace.config.rules import at_least

INT = Type.INT
CLUSTER_WIDE = Update.CLUSTER_WIDE

NOT_OFFERED = harmless("streams groups are not offered; a client that asks for one gets an error")

KEYS = (
    Key(
        "group.streams.session.timeout.ms",
        INT,
        45_000,
        "A member of a streams group that is silent for this long is gone.",
        at_least(1),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.min.session.timeout.ms",
        INT,
        45_000,
        "The shortest session timeout a streams group may set for itself.",
        at_least(1),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.max.session.timeout.ms",
        INT,
        60_000,
        "The longest session timeout a streams group may set for itself.",
        at_least(1),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.heartbeat.interval.ms",
        INT,
        5000,
        "How often members of a streams group are told to send a heartbeat.",
        at_least(1),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.min.heartbeat.interval.ms",
        INT,
        5000,
        "The shortest heartbeat interval a streams group may set for itself.",
        at_least(1),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The longest heartbeat interval a streams group may set for itself.",
        at_least(1),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.assignment.interval.ms",
        INT,
        1000,
        "The least time between two assignments of a streams group.",
        at_least(0),
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.min.assignment.interval.ms",
        INT,
        0,
        "The shortest assignment interval a streams group may set for itself.",
        at_least(0),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.max.assignment.interval.ms",
        INT,
        15_000,
        "The longest assignment interval a streams group may set for itself.",
        at_least(0),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.max.size",
        INT,
        INT_MAX,
        "The most members of a streams group.",
        at_least(1),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.num.standby.replicas",
        INT,
        0,
        "Standby copies of each task's state.",
        at_least(0),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.max.standby.replicas",
        INT,
        2,
        "The most standby copies a streams group may set for itself.",
        at_least(0),
        effect=NOT_OFFERED,
    ),
    Key(
        "group.streams.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long the first rebalance of a new streams group waits for more members.",
        at_least(0),
        effect=NOT_OFFERED,
    ),
)
