"""Keys of a group (GROUP resources), each with the broker key it inherits from."""

from __future__ import annotations

from headrace.config.key import Key, Synonym, Type
from headrace.config.rules import SHARE_OFFSET_RESET, at_least, one_of

BOOLEAN = Type.BOOLEAN
STRING = Type.STRING
INT = Type.INT

KEYS = (
    Key(
        "consumer.session.timeout.ms",
        INT,
        45_000,
        "The coordinator removes a member that sends no heartbeat for this time.",
        at_least(1),
        synonyms=(Synonym("group.consumer.session.timeout.ms"),),
    ),
    Key(
        "consumer.heartbeat.interval.ms",
        INT,
        5000,
        "Heartbeat interval that the coordinator gives to members.",
        at_least(1),
        synonyms=(Synonym("group.consumer.heartbeat.interval.ms"),),
    ),
    Key(
        "consumer.assignment.interval.ms",
        INT,
        1000,
        "Minimum time between two assignments.",
        at_least(0),
        synonyms=(Synonym("group.consumer.assignment.interval.ms"),),
    ),
    Key(
        "share.session.timeout.ms",
        INT,
        45_000,
        "The coordinator removes a member that sends no heartbeat for this time.",
        at_least(1),
        synonyms=(Synonym("group.share.session.timeout.ms"),),
    ),
    Key(
        "share.heartbeat.interval.ms",
        INT,
        5000,
        "Heartbeat interval that the coordinator gives to members.",
        at_least(1),
        synonyms=(Synonym("group.share.heartbeat.interval.ms"),),
    ),
    Key(
        "share.assignment.interval.ms",
        INT,
        1000,
        "Minimum time between two assignments.",
        at_least(0),
        synonyms=(Synonym("group.share.assignment.interval.ms"),),
    ),
    Key(
        "share.auto.offset.reset",
        STRING,
        "latest",
        "Start offset of a new share group: `latest`, `earliest`, or a time before now (`by_duration:PT1H`).",
        SHARE_OFFSET_RESET,
    ),
    Key(
        "share.delivery.count.limit",
        INT,
        5,
        "Maximum number of deliveries of a record. The broker then archives it.",
        at_least(2),
        synonyms=(Synonym("group.share.delivery.count.limit"),),
    ),
    Key(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        "Whether members also get records of open and aborted transactions.",
        one_of("read_committed", "read_uncommitted"),
    ),
    Key(
        "share.partition.max.record.locks",
        INT,
        2000,
        "Maximum number of acquired records of a share partition.",
        at_least(100),
        synonyms=(Synonym("group.share.partition.max.record.locks"),),
    ),
    Key(
        "share.record.lock.duration.ms",
        INT,
        30_000,
        "How long a member holds an acquired record before another member can get it.",
        at_least(1000),
        synonyms=(Synonym("group.share.record.lock.duration.ms"),),
    ),
    Key(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        True,
        "Whether a member can renew its acquisition lock.",
    ),
    Key(
        "errors.deadletterqueue.topic.name",
        STRING,
        "",
        "Topic for dead letters of a share group: records that a member rejected, or that were delivered too often. "
        "Empty: the broker archives them without a letter. The topic must permit it "
        "(`errors.deadletterqueue.group.enable`). Kafka has this setting since 4.4.",
        ours=True,
    ),
    Key(
        "errors.deadletterqueue.copy.record.enable",
        BOOLEAN,
        False,
        "Whether a dead letter is a copy of the record. If not, it has only headers that name the record.",
        ours=True,
    ),
    Key(
        "streams.session.timeout.ms",
        INT,
        45_000,
        "The coordinator removes a member that sends no heartbeat for this time.",
        at_least(1),
        synonyms=(Synonym("group.streams.session.timeout.ms"),),
    ),
    Key(
        "streams.heartbeat.interval.ms",
        INT,
        5000,
        "Heartbeat interval that the coordinator gives to members.",
        at_least(1),
        synonyms=(Synonym("group.streams.heartbeat.interval.ms"),),
    ),
    Key(
        "streams.assignment.interval.ms",
        INT,
        1000,
        "Minimum time between two assignments.",
        at_least(0),
        synonyms=(Synonym("group.streams.assignment.interval.ms"),),
    ),
    Key(
        "streams.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long the first rebalance of a new group waits for more members.",
        at_least(0),
        synonyms=(Synonym("group.streams.initial.rebalance.delay.ms"),),
    ),
    Key(
        "streams.num.standby.replicas",
        INT,
        0,
        "Number of standby replicas of each task.",
        at_least(0),
        synonyms=(Synonym("group.streams.num.standby.replicas"),),
    ),
)
