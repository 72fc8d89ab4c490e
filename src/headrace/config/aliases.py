"""Other spellings that are taken for a key, and Kafka's keys that Headrace knows of but does not offer.

Books and courses spell some keys otherwise than Kafka does; a file copied from one works here. A key of Apache Kafka
that has no meaning here gets a warning that says why, instead of a guess at a misspelling.
"""

from __future__ import annotations

from collections.abc import Iterable

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
}
TOPIC_ALIASES = {
    "min-insync.replicas": "min.insync.replicas",
    "min.in.sync.replicas": "min.insync.replicas",
    "log.retention.ms": "retention.ms",
    "log.retention.bytes": "retention.bytes",
    "log.segment.bytes": "segment.bytes",
    "log.segment.ms": "segment.ms",
    "log.cleanup.policy": "cleanup.policy",
}
CLIENT_ALIASES = {
    "data.max.age.ms": "metadata.max.age.ms",
    "max.in.flight.request.per.connection": "max.in.flight.requests.per.connection",
    "broker.list": "bootstrap.servers",
    "metadata.broker.list": "bootstrap.servers",
}

_ELSEWHERE = (
    ("controller.quorum.", "KRaft's quorum is not used here; clusters meet in ZooKeeper (zookeeper.connect)"),
    ("metadata.", "KRaft's metadata log is not used here; the coordination store keeps the cluster's state"),
    ("remote.", "tiered storage is not offered"),
    ("rsm.config.", "tiered storage is not offered"),
    ("rlmm.config.", "tiered storage is not offered"),
    ("follower.fetch.last.tiered.", "tiered storage is not offered"),
    ("ssl.", "TLS listeners are not offered yet"),
    ("sasl.", "SASL is not offered yet"),
    ("listener.name.", "listeners have no settings of their own yet"),
    ("delegation.token.", "delegation tokens are not offered"),
    ("principal.builder.class", "principals are not built by a class here"),
    ("security.providers", "there are no Java security providers here"),
    ("password.encoder.", "secrets are not kept in the coordination store"),
    ("zookeeper.ssl.", "TLS to ZooKeeper is not offered"),
    ("zookeeper.clientCnxnSocket", "the ZooKeeper client is not Java's"),
    ("inter.broker.listener.", "unknown listener setting"),
    ("confluent.", "that key belongs to another product"),
    ("super.users", "access control is not offered yet"),
    ("allow.everyone.if.no.acl.found", "access control is not offered yet"),
    ("log.message.format.version", "records are always stored in the newest format"),
    ("log.message.downconversion.enable", "records are never converted to older formats"),
    ("log.message.timestamp.difference.max.ms", "use log.message.timestamp.before.max.ms and …after.max.ms"),
    ("log.cleaner.", "not a setting of compaction here"),
    ("host.name", "use listeners"),
    ("advertised.host.name", "use advertised.listeners"),
    ("advertised.port", "use advertised.listeners"),
    ("quota.producer.default", "set a default client quota with kafka-configs.sh"),
    ("quota.consumer.default", "set a default client quota with kafka-configs.sh"),
)


def unknown_key_warning(name: str, known: Iterable[str]) -> str:
    import difflib  # only a file with an unknown key pays for loading it

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.85)
    if near:
        return f"{name}: no such key; did you mean {near[0]}? Ignored."
    for prefix, why in _ELSEWHERE:
        if name.startswith(prefix):
            return f"{name}: {why}. Ignored."
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"{name}: no such key; did you mean {near[0]}? Ignored." if near else f"{name}: no such key. Ignored."
