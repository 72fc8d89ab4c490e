"""Headrace's own keys, which Apache Kafka does not have."""

from __future__ import annotations

from headrace.config.key import Importance, Key, Synonym, Type, Update
from headrace.config.rules import between, one_of_any_case

KEYS = (
    Key(
        "metrics.listen",
        Type.STRING,
        "",
        "`host:port` of the Prometheus metrics (`/metrics`); `http://host:port` for one that other machines reach. "
        "Empty: no metrics.",
        importance=Importance.MEDIUM,
        ours=True,
    ),
    Key(
        "log.level",
        Type.STRING,
        "INFO",
        "Minimum severity of the lines in the broker's log. Set single loggers with `kafka-configs.sh --entity-type "
        "broker-loggers`.",
        one_of_any_case("trace", "debug", "info", "warn", "error", "fatal"),
        importance=Importance.LOW,
        ours=True,
    ),
    Key(
        "log.flush.before.ack",
        Type.BOOLEAN,
        False,
        "Whether the leader flushes a write to its disk before it acknowledges it. Writes that wait at the same time "
        "share an fsync.",
        update=Update.CLUSTER_WIDE,
        ours=True,
    ),
    Key(
        "log.retention.disk.percent",
        Type.DOUBLE,
        0.0,
        "The broker deletes the oldest segments of a partition while the partition uses more than this percentage of "
        "its disk; 0 sets no limit. It never deletes the active segment.",
        between(0, 100),
        update=Update.CLUSTER_WIDE,
        ours=True,
    ),
    Key(
        "log.validate.records",
        Type.BOOLEAN,
        False,
        "Whether the leader reads the records of every batch of a producer and rejects unreadable ones "
        "(INVALID_RECORD). If off, it checks only the checksum and does not decompress the batch.",
        update=Update.CLUSTER_WIDE,
        ours=True,
    ),
)

TOPIC_KEYS = (
    Key(
        "retention.disk.percent",
        Type.DOUBLE,
        0.0,
        "The broker deletes the oldest segments of a partition while the partition uses more than this percentage of "
        "its disk; 0 sets no limit. It never deletes the active segment.",
        between(0, 100),
        synonyms=(Synonym("log.retention.disk.percent"),),
        ours=True,
    ),
    Key(
        "flush.before.ack",
        Type.BOOLEAN,
        False,
        "Whether the leader flushes a write to its disk before it acknowledges it. Writes that wait at the same time "
        "share an fsync.",
        synonyms=(Synonym("log.flush.before.ack"),),
        ours=True,
    ),
    Key(
        "validate.records",
        Type.BOOLEAN,
        False,
        "Whether the leader reads the records of every batch of a producer and rejects unreadable ones "
        "(INVALID_RECORD). If off, it checks only the checksum and does not decompress the batch.",
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
