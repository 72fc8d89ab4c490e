"""Broker keys of clusters that meet in ZooKeeper, and others that Apache Kafka dropped with it and files still hold."""

from __future__ import annotations

from headrace.config.effect import harmless, warned
from headrace.config.key import Importance, Key, Type
from headrace.config.rules import SERVERS_AND_PATH, at_least

BOOLEAN = Type.BOOLEAN
STRING = Type.STRING
INT = Type.INT
HIGH = Importance.HIGH

KEYS = (
    Key(
        "zookeeper.connect",
        STRING,
        None,
        "ZooKeeper servers `host:port`, separated by commas, with an optional path at the end (`/headrace`) under "
        "which the cluster keeps its state. Unset, the broker stands alone with its own store in the log directory.",
        SERVERS_AND_PATH,
        importance=HIGH,
        ours=True,
    ),
    Key(
        "zookeeper.session.timeout.ms",
        INT,
        18_000,
        "A broker silent to ZooKeeper for this long has left the cluster; it stops serving before that by its "
        "own clock.",
        at_least(1),
        importance=HIGH,
        ours=True,
    ),
    Key(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        "How long the broker tries to reach ZooKeeper at its start; when unset, the session timeout.",
        importance=HIGH,
        ours=True,
    ),
    Key(
        "zookeeper.max.in.flight.requests",
        INT,
        10,
        "Requests to ZooKeeper that may be under way at once.",
        at_least(1),
        importance=HIGH,
        ours=True,
        effect=harmless("the broker sends requests as they come"),
    ),
    Key(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        "Whether what the cluster writes in ZooKeeper is guarded so that only its creator may change it.",
        importance=HIGH,
        ours=True,
    ),
    Key(
        "zookeeper.digest.user",
        STRING,
        None,
        "The name under which brokers sign in to ZooKeeper (its digest scheme); all brokers of a cluster use the same. "
        "Needed with `zookeeper.set.acl`.",
        ours=True,
    ),
    Key("zookeeper.digest.password", Type.PASSWORD, None, "The password that goes with it.", ours=True),
    Key(
        "broker.id.generation.enable",
        BOOLEAN,
        True,
        "Whether a broker of a cluster that has no `broker.id`, and none in its log directory, is given one above "
        "`reserved.broker.max.id`.",
        ours=True,
    ),
    Key(
        "reserved.broker.max.id",
        INT,
        1000,
        "Ids that are given out lie above this; keep those that are set by hand below.",
        at_least(0),
        ours=True,
    ),
    Key(
        "controlled.shutdown.max.retries",
        INT,
        3,
        "How often a stopping broker tries to hand leadership over before it stops all the same.",
        ours=True,
        effect=warned("a stopping broker tries once, for at most 15 seconds"),
    ),
    Key(
        "controlled.shutdown.retry.backoff.ms",
        INT,
        5000,
        "Pause between two such tries.",
        ours=True,
        effect=warned("a stopping broker tries once, for at most 15 seconds"),
    ),
    Key(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        "Share of a broker's preferred partitions led elsewhere at which leadership goes back.",
        importance=HIGH,
        ours=True,
    ),
    Key(
        "inter.broker.protocol.version",
        STRING,
        "4.3",
        "The release whose protocol brokers speak among themselves. Some consoles read it to tell the broker's age.",
        ours=True,
        effect=harmless("brokers speak one protocol"),
    ),
)
