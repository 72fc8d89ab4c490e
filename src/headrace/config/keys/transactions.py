"""Broker keys: transactions."""

from __future__ import annotations

from headrace.config.effect import harmless, refused
from headrace.config.key import Importance, Key, Type, Update
from headrace.config.rules import at_least

BOOLEAN = Type.BOOLEAN
INT = Type.INT
SHORT = Type.SHORT
HIGH = Importance.HIGH
LOW = Importance.LOW
CLUSTER_WIDE = Update.CLUSTER_WIDE

KEYS = (
    Key(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of `__transaction_state`; must not change once the topic exists.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "Replication factor of this topic.",
        at_least(1),
        importance=HIGH,
        difference="1 on a standalone broker (no `zookeeper.connect`).",
    ),
    Key(
        "transaction.state.log.min.isr",
        INT,
        2,
        "`min.insync.replicas` of this topic.",
        at_least(1),
        importance=HIGH,
        difference="1 on a standalone broker (no `zookeeper.connect`); never more than the replication factor of the "
        "topic.",
    ),
    Key(
        "transaction.state.log.segment.bytes",
        INT,
        104_857_600,
        "Segment size of this topic.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "transaction.state.log.load.buffer.size",
        INT,
        5_242_880,
        "Bytes read at a time when a coordinator loads its transactions.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        "Maximum transaction timeout of a producer.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often the coordinator checks for transactions that timed out.",
        at_least(1),
        importance=LOW,
    ),
    Key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "How often the coordinator checks for expired transactional ids.",
        at_least(1),
        importance=LOW,
    ),
    Key(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether the partition leader verifies the first write of a transaction with the coordinator.",
        importance=LOW,
        update=CLUSTER_WIDE,
    ),
    Key(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Whether producers can prepare a transaction for an external coordinator.",
        importance=LOW,
        effect=refused("Headrace does not support two-phase commit"),
    ),
    Key(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        "How long the coordinator keeps an unused transactional id.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "Pause before the broker retries adding a partition to a transaction.",
        at_least(1),
        importance=HIGH,
        effect=harmless("the client retries instead of the broker"),
    ),
    Key(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "How long the broker retries before the client must retry.",
        at_least(0),
        importance=HIGH,
        effect=harmless("the client retries instead of the broker"),
    ),
)
