"""Alternative spellings of keys that Headrace accepts.

Some books and courses misspell keys; a file copied from one works. Confluent's brokers have names of their own for
validation by a schema registry.
"""

from __future__ import annotations

BROKER_ALIASES = {
    "offset.retention.minutes": "offsets.retention.minutes",
    "log.segment.ms": "log.roll.ms",
    "log.segment.hours": "log.roll.hours",
    "min-insync.replicas": "min.insync.replicas",
    "min.in.sync.replicas": "min.insync.replicas",
    "replication.factor": "default.replication.factor",
    "log.message.max.bytes": "message.max.bytes",
    "auto.create.topic.enable": "auto.create.topics.enable",
    "delete.topics.enable": "delete.topic.enable",
    "confluent.schema.registry.url": "schema.registry.url",
    "confluent.basic.auth.user.info": "schema.registry.user.info",
}
TOPIC_ALIASES = {
    "min-insync.replicas": "min.insync.replicas",
    "min.in.sync.replicas": "min.insync.replicas",
    "log.retention.ms": "retention.ms",
    "log.retention.bytes": "retention.bytes",
    "log.segment.bytes": "segment.bytes",
    "log.segment.ms": "segment.ms",
    "log.cleanup.policy": "cleanup.policy",
    "confluent.value.schema.validation": "value.schema.validation",
    "confluent.key.schema.validation": "key.schema.validation",
    "confluent.value.subject.name.strategy": "value.subject.name.strategy",
    "confluent.key.subject.name.strategy": "key.subject.name.strategy",
}
CLIENT_ALIASES = {
    "data.max.age.ms": "metadata.max.age.ms",
    "max.in.flight.request.per.connection": "max.in.flight.requests.per.connection",
    "broker.list": "bootstrap.servers",
    "metadata.broker.list": "bootstrap.servers",
}
