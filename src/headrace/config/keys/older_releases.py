"""Broker keys that Apache Kafka 3.9 had and 4.x has not, where no other file has them."""

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
        "Whether metrics are reported through JMX in every case.",
        importance=LOW,
        effect=harmless("there is no JMX, metrics.listen serves the metrics"),
        ours=True,
    ),
    Key(
        "control.plane.listener.name",
        STRING,
        None,
        "Listener for the controller's requests alone.",
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
        "Whether the coordinator of Kafka 4 is used.",
        effect=harmless("there is one coordinator"),
        ours=True,
    ),
    Key(
        "group.share.enable",
        BOOLEAN,
        False,
        "Whether share groups are served.",
        effect=harmless("the feature share.version decides, on every broker alike"),
        ours=True,
    ),
    Key(
        "group.share.max.groups",
        SHORT,
        10,
        "The most share groups.",
        effect=warned("the number of share groups has no limit"),
        ours=True,
    ),
    Key(
        "log.message.downconversion.enable",
        BOOLEAN,
        True,
        "Whether records are converted for clients that read older formats only.",
        importance=LOW,
        effect=harmless("records are never converted"),
        ours=True,
    ),
    Key(
        "log.message.format.version",
        STRING,
        "3.0-IV1",
        "Format that records are stored in.",
        effect=harmless("records are always stored in the newest format, as in Kafka since 3.0"),
        ours=True,
    ),
    Key(
        "log.message.timestamp.difference.max.ms",
        LONG,
        LONG_MAX,
        "Records whose time differs from the broker's by more than this are refused.",
        effect=warned("use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"),
        ours=True,
    ),
    Key(
        "offsets.commit.required.acks",
        SHORT,
        -1,
        "Replicas that must hold an offset commit before it is answered.",
        importance=HIGH,
        effect=harmless("a commit always waits for all replicas in sync, which is the safest value"),
        ours=True,
    ),
)
