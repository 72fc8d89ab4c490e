"""Headrace's own keys, which Apache Kafka does not have."""

from __future__ import annotations

from headrace.config.key import Importance, Key, Rule, Synonym, Type, Update
from headrace.config.rules import NO_LOGIN_IN_URL, between, one_of, one_of_any_case

_CONFLUENT_STRATEGY = "io.confluent.kafka.serializers.subject"
_PROCESSES = Rule(
    "must be a number from 1 to 256, or auto",
    lambda text: text in ("", "auto") or (text.isdecimal() and 1 <= int(text) <= 256),
)
SUBJECT_STRATEGIES = {
    "topic": "topic",
    "record": "record",
    "topic-record": "topic-record",
    f"{_CONFLUENT_STRATEGY}.TopicNameStrategy": "topic",
    f"{_CONFLUENT_STRATEGY}.RecordNameStrategy": "record",
    f"{_CONFLUENT_STRATEGY}.TopicRecordNameStrategy": "topic-record",
}
"""Accepted names of subject strategies, each with the name that the code uses."""

KEYS = (
    Key(
        "broker.processes",
        Type.STRING,
        "",
        "Number of broker processes on this host, or `auto` for one per core (`headrace start --cores`). Process i has "
        "`broker.id` plus i, every port plus i, and the log directories `process.<i>` inside `log.dirs`. Empty: one "
        "process.",
        _PROCESSES,
        importance=Importance.HIGH,
        ours=True,
    ),
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
        "client.telemetry.enable",
        Type.BOOLEAN,
        False,
        "Whether clients may push their metrics (KIP-714), which `metrics.listen` then shows. Kafka does this with a "
        "telemetry plug-in. Clients ask for subscriptions as soon as a broker offers it.",
        importance=Importance.LOW,
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
    Key(
        "registry.listen",
        Type.STRING,
        "",
        "`host:port` of a schema registry that runs as a process beside the broker and ends with it. Empty: no "
        "registry.",
        importance=Importance.MEDIUM,
        ours=True,
    ),
    Key(
        "registry.command.config",
        Type.STRING,
        "",
        "File with the client settings of the registry's own user. Needed if no listener of the broker is PLAINTEXT.",
        ours=True,
    ),
    Key(
        "registry.tls.config",
        Type.STRING,
        "",
        "File with the `ssl.*` keys of the registry's listener. Turns on HTTPS.",
        ours=True,
    ),
    Key(
        "registry.xml.schemas",
        Type.BOOLEAN,
        False,
        "Whether the registry of `registry.listen` accepts XML Schema. Needs the extra `xml`.",
        ours=True,
    ),
    Key(
        "schema.registry.url",
        Type.STRING,
        "",
        "URL of the schema registry that knows the schema ids of topics with `value.schema.validation` or "
        "`key.schema.validation`. Empty: the address of `registry.listen`.",
        NO_LOGIN_IN_URL,
        importance=Importance.MEDIUM,
        ours=True,
    ),
    Key(
        "schema.registry.user.info",
        Type.PASSWORD,
        None,
        "`user:password` with which the broker logs in to the schema registry.",
        ours=True,
    ),
    Key(
        "schema.registry.ca.location",
        Type.STRING,
        "",
        "PEM file with the certificates that the broker trusts when `schema.registry.url` begins with https.",
        ours=True,
    ),
)

_STRATEGY = one_of(*SUBJECT_STRATEGIES)

TOPIC_KEYS = (
    Key(
        "value.schema.validation",
        Type.BOOLEAN,
        False,
        "Whether the leader rejects a batch (INVALID_RECORD) if a value does not begin with a schema id of its "
        "subject. It accepts values that are null. The broker needs `schema.registry.url`.",
        ours=True,
    ),
    Key(
        "key.schema.validation",
        Type.BOOLEAN,
        False,
        "The same for keys.",
        ours=True,
    ),
    Key(
        "value.subject.name.strategy",
        Type.STRING,
        "topic",
        "How the subject of a value is named: `topic` (TOPIC-value), `record` (the name of the record), "
        "`topic-record` (TOPIC-NAME). Confluent's class names are accepted too.",
        _STRATEGY,
        ours=True,
    ),
    Key(
        "key.subject.name.strategy",
        Type.STRING,
        "topic",
        "How the subject of a key is named. Accepts the same values as `value.subject.name.strategy`.",
        _STRATEGY,
        ours=True,
    ),
    Key(
        "errors.deadletterqueue.group.enable",
        Type.BOOLEAN,
        False,
        "Whether share groups can use this topic for dead letters (`errors.deadletterqueue.topic.name`). Kafka has "
        "this setting since 4.4.",
        ours=True,
    ),
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
