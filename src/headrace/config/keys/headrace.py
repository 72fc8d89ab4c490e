"""Keys of Headrace's own: what Apache Kafka leaves to other programs or does not offer."""

from __future__ import annotations

from headrace.config.key import Importance, Key, Synonym, Type, Update
from headrace.config.rules import between, one_of_any_case

KEYS = (
    Key(
        "metrics.listen",
        Type.STRING,
        "",
        "`host:port` where metrics are served in Prometheus' format at `/metrics`; empty serves none.",
        importance=Importance.MEDIUM,
        ours=True,
    ),
    Key(
        "log.level",
        Type.STRING,
        "INFO",
        "Least severity of the lines that the broker writes to its own log; single loggers are set with "
        "`kafka-configs.sh --entity-type broker-loggers`.",
        one_of_any_case("trace", "debug", "info", "warn", "error", "fatal"),
        importance=Importance.LOW,
        ours=True,
    ),
    Key(
        "log.flush.before.ack",
        Type.BOOLEAN,
        False,
        "Whether a write is on the leader's disk (fsync, shared by the writes that wait together) before it is "
        "acknowledged.",
        update=Update.CLUSTER_WIDE,
        ours=True,
    ),
    Key(
        "log.retention.disk.percent",
        Type.DOUBLE,
        0.0,
        "Oldest segments of a partition are deleted while it fills more than this per cent of its disk; 0 sets no such "
        "bound. Never the active segment.",
        between(0, 100),
        update=Update.CLUSTER_WIDE,
        ours=True,
    ),
    Key(
        "log.validate.records",
        Type.BOOLEAN,
        False,
        "Whether the leader opens every batch that a producer sends, and refuses one whose records cannot be read "
        "(INVALID_RECORD). Off, it believes a batch whose checksum is right, without the cost of decompressing.",
        update=Update.CLUSTER_WIDE,
        ours=True,
    ),
)

TOPIC_KEYS = (
    Key(
        "retention.disk.percent",
        Type.DOUBLE,
        0.0,
        "Oldest segments of a partition are deleted while it fills more than this per cent of its disk; 0 sets no such "
        "bound. Never the active segment.",
        between(0, 100),
        synonyms=(Synonym("log.retention.disk.percent"),),
        ours=True,
    ),
    Key(
        "flush.before.ack",
        Type.BOOLEAN,
        False,
        "Whether a write is on the leader's disk (fsync, shared by the writes that wait together) before it is "
        "acknowledged.",
        synonyms=(Synonym("log.flush.before.ack"),),
        ours=True,
    ),
    Key(
        "validate.records",
        Type.BOOLEAN,
        False,
        "Whether the leader opens every batch that a producer sends, and refuses one whose records cannot be read "
        "(INVALID_RECORD). Off, it believes a batch whose checksum is right, without the cost of decompressing.",
        synonyms=(Synonym("log.validate.records"),),
        ours=True,
    ),
    Key(
        "replica.lag.time.max.ms",
        Type.LONG,
        30_000,
        "A follower of the topic that has not caught up with the leader's log end for this long leaves the in-sync "
        "replicas. At least the broker's `replica.fetch.wait.max.ms`. In Kafka only brokers have this setting.",
        synonyms=(Synonym("replica.lag.time.max.ms"),),
        ours=True,
    ),
)
