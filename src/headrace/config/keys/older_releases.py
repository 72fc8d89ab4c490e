"""Broker keys of Apache Kafka 3.9 that 4.x does not have and that no other file declares."""

from __future__ import annotations

from headrace.config.effect import harmless, warned
from headrace.config.key import LONG_MAX, Importance, Key, Type

BOOLEAN = Type.BOOLEAN
LONG = Type.LONG
SHORT = Type.SHORT
STRING = Type.STRING
HIGH = Importance.HIGH
LOW = Importance.LOW


KEYS = (
    Key(
        "auto.include.jmx.reporter",
        BOOLEAN,
        True,
        "Whether the broker always reports metrics through JMX.",
        importance=LOW,
        effect=harmless("there is no JMX, metrics.listen serves the metrics"),
        ours=True,
    ),
    Key(
        "control.plane.listener.name",
        STRING,
        None,
        "Listener for the requests of the controller only.",
        importance=HIGH,
        effect=warned(
            "the controller uses the listener between brokers, and a listener of that name is open to clients"
        ),
        ours=True,
    ),
    Key(
        "group.coordinator.new.enable",
        BOOLEAN,
        False,
        "Whether the broker uses the group coordinator of Kafka 4.",
        effect=harmless("there is one coordinator"),
        ours=True,
    ),
    Key(
        "group.share.enable",
        BOOLEAN,
        False,
        "Whether the broker supports share groups.",
        effect=harmless("the feature share.version decides for all brokers"),
        ours=True,
    ),
    Key(
        "group.share.max.groups",
        SHORT,
        10,
        "Maximum number of share groups.",
        effect=warned("the number of share groups has no limit"),
        ours=True,
    ),
    Key(
        "log.message.downconversion.enable",
        BOOLEAN,
        True,
        "Whether the broker converts records for clients that read only older formats.",
        importance=LOW,
        effect=harmless("the broker never converts records"),
        ours=True,
    ),
    Key(
        "log.message.format.version",
        STRING,
        "3.0-IV1",
        "Format of stored records.",
        effect=harmless("the broker always stores records in the newest format, as Kafka does since 3.0"),
        ours=True,
    ),
    Key(
        "log.message.timestamp.difference.max.ms",
        LONG,
        LONG_MAX,
        "The leader rejects records whose timestamp differs from its clock by more than this.",
        effect=warned("use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"),
        ours=True,
    ),
    Key(
        "offsets.commit.required.acks",
        SHORT,
        -1,
        "Number of replicas that must have an offset commit before the coordinator answers.",
        importance=HIGH,
        effect=harmless("a commit always waits for all in-sync replicas, the safest value"),
        ours=True,
    ),
)
