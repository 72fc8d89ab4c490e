"""Broker keys of clusters on ZooKeeper, and keys that Apache Kafka removed with it and old files still contain."""

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
        "ZooKeeper servers `host:port`, separated by commas, with an optional path at the end (`/headrace`) for the "
        "state of the cluster. If it is not set, the broker is a standalone broker with an embedded store in its log "
        "directory.",
        SERVERS_AND_PATH,
        importance=HIGH,
        ours=True,
    ),
    Key(
        "zookeeper.session.timeout.ms",
        INT,
        18_000,
        "ZooKeeper ends the session of a broker without heartbeats after this time. The broker stops serving "
        "earlier, by its own clock.",
        at_least(1),
        importance=HIGH,
        ours=True,
    ),
    Key(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        "How long a starting broker tries to reach ZooKeeper. Default: the session timeout.",
        importance=HIGH,
        ours=True,
    ),
    Key(
        "zookeeper.max.in.flight.requests",
        INT,
        10,
        "Maximum number of requests in flight to ZooKeeper.",
        at_least(1),
        importance=HIGH,
        ours=True,
        effect=harmless("the broker sends requests without a limit"),
    ),
    Key(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        "Whether only the cluster can change its nodes in ZooKeeper.",
        importance=HIGH,
        ours=True,
    ),
    Key(
        "zookeeper.digest.user",
        STRING,
        None,
        "User name of the brokers at ZooKeeper (digest scheme). All brokers of a cluster use the same name. Required "
        "with `zookeeper.set.acl`.",
        ours=True,
    ),
    Key("zookeeper.digest.password", Type.PASSWORD, None, "Password of this user.", ours=True),
    Key(
        "broker.id.generation.enable",
        BOOLEAN,
        True,
        "Whether a broker of a cluster without a `broker.id`, in its configuration and its log directory, gets a "
        "generated id above `reserved.broker.max.id`.",
        ours=True,
    ),
    Key(
        "reserved.broker.max.id",
        INT,
        1000,
        "Generated broker ids are above this number. Use ids up to it in your configuration.",
        at_least(0),
        ours=True,
    ),
    Key(
        "controlled.shutdown.max.retries",
        INT,
        3,
        "How many times a stopping broker tries to hand over leadership.",
        ours=True,
        effect=warned("a stopping broker tries once, for at most 15 seconds"),
    ),
    Key(
        "controlled.shutdown.retry.backoff.ms",
        INT,
        5000,
        "Pause between two such attempts.",
        ours=True,
        effect=warned("a stopping broker tries once, for at most 15 seconds"),
    ),
    Key(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        "Percentage of a broker's preferred partitions with another leader at which the controller returns leadership.",
        importance=HIGH,
        ours=True,
    ),
    Key(
        "inter.broker.protocol.version",
        STRING,
        "4.3",
        "Protocol version between brokers. Some consoles read it to show the version of the broker.",
        ours=True,
        effect=harmless("brokers speak one protocol"),
    ),
)
