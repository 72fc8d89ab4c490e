"""The effective configuration from a broker's file and its dynamic settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config import (
    BROKER_KEYS,
    ConfigError,
    GroupConfig,
    TopicConfig,
    load_broker_config,
    validate_broker_overrides,
    validate_group_overrides,
    validate_topic_overrides,
)


def test_values_have_the_types_of_their_keys() -> None:
    config = load_broker_config(
        {
            "num.partitions": " 3 ",
            "auto.create.topics.enable": "FALSE",
            "log.dirs": "/a , /b",
            "log.cleaner.min.cleanable.ratio": "0.25",
            "broker.rack": "r1",
        }
    )
    assert config["num.partitions"] == 3
    assert config["auto.create.topics.enable"] is False
    assert config.log_dirs == ["/a", "/b"]
    assert config["log.cleaner.min.cleanable.ratio"] == 0.25
    assert config["broker.rack"] == "r1"
    assert config["message.max.bytes"] == 1048588
    assert config.warnings == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("log.segment.bytes", "3", "log.segment.bytes='3': must be at least 1048576"),
        ("num.partitions", "many", "num.partitions='many': must be a whole number of 32 bits"),
        ("num.partitions", "99999999999", "num.partitions='99999999999': must be a whole number of 32 bits"),
        ("delete.topic.enable", "yes", "delete.topic.enable='yes': must be true or false"),
        ("log.cleanup.policy", "delete,shred", "log.cleanup.policy='delete,shred': may hold only compact, delete"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "must be between 0 and 1"),
        ("log.retention.ms", "0", "log.retention.ms='0': must be -1 (without limit) or at least 1"),
        ("authorizer.class.name", "a.b.C", "authorizer.class.name='a.b.C': must be empty or one of org.apache.kafka."),
        ("super.users", "User:a", "has an effect only with authorizer.class.name"),
        ("compression.gzip.level", "0", "must be -1 or between 1 and 9"),
        ("replica.fetch.wait.max.ms", "40000", "must not be above replica.socket.timeout.ms (30000)"),
    ],
)
def test_a_wrong_value_stops_the_start_and_names_key_value_and_rule(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_broker_config({key: value})
    assert message in str(error.value)
    assert error.value.key == key


def test_an_unknown_key_warns_with_the_nearest_known_one_and_the_broker_starts() -> None:
    config = load_broker_config({"num.partitons": "3", "confluent.support.enable": "k", "frobnicate": "1"})
    assert config.warnings == [
        "num.partitons: no such key; did you mean num.partitions? Ignored.",
        "confluent.support.enable: that key belongs to another product. Ignored.",
        "frobnicate: no such key. Ignored.",
    ]
    assert config["num.partitions"] == 1


def test_alternative_spellings_of_keys_are_accepted() -> None:
    config = load_broker_config(
        {
            "offset.retention.minutes": "5",
            "log.segment.ms": "1000",
            "min-insync.replicas": "2",
            "zookeeper.connect": "z:1",
        }
    )
    assert config["offsets.retention.minutes"] == 5
    assert config["log.roll.ms"] == 1000
    assert config["min.insync.replicas"] == 2
    assert config.warnings == []
    both = load_broker_config({"log.segment.ms": "1000", "log.roll.ms": "2000"})
    assert both["log.roll.ms"] == 2000
    assert both.warnings == ["log.segment.ms: log.roll.ms is also set and wins. Ignored."]


def test_the_finer_unit_of_a_time_wins() -> None:
    def retention(**given: str) -> int:
        properties = {f"log.retention.{unit}": value for unit, value in given.items()}
        return int(TopicConfig(load_broker_config(properties))["retention.ms"])

    assert retention() == 7 * 24 * 3_600_000
    assert retention(hours="2") == 2 * 3_600_000
    assert retention(hours="2", minutes="3") == 3 * 60_000
    assert retention(hours="2", minutes="3", ms="4") == 4
    assert retention(hours="-1") == -1
    assert retention(ms="-7") == -1
    assert TopicConfig(load_broker_config({"log.roll.hours": "5"}))["segment.ms"] == 5 * 3_600_000
    assert TopicConfig(load_broker_config({"log.flush.scheduler.interval.ms": "9"}))["flush.ms"] == 9


def test_a_topic_inherits_from_dynamic_then_static_then_default() -> None:
    static = load_broker_config({"message.max.bytes": "2000"})
    everywhere = static.with_dynamic(cluster_default={"message.max.bytes": "3000"})
    here = static.with_dynamic({"message.max.bytes": "4000"}, {"message.max.bytes": "3000"})
    assert [TopicConfig(config)["max.message.bytes"] for config in (static, everywhere, here)] == [2000, 3000, 4000]
    assert TopicConfig(here, {"max.message.bytes": "5000"})["max.message.bytes"] == 5000
    assert here["message.max.bytes"] == 4000
    assert static["message.max.bytes"] == 2000
    assert here.with_dynamic()["message.max.bytes"] == 2000


def test_a_stored_dynamic_value_that_is_wrong_or_not_dynamic_does_not_stop_a_restart() -> None:
    config = load_broker_config({}).with_dynamic({"log.segment.bytes": "3", "broker.id": "9", "plugin.key": "x"})
    assert config["log.segment.bytes"] == 1073741824
    assert config["broker.id"] == -1
    assert config.warnings == ["dynamic log.segment.bytes='3': must be at least 1048576. Ignored."]


def test_dynamic_changes_are_checked_before_they_are_stored() -> None:
    config = load_broker_config({})
    validate_broker_overrides(config, {"log.segment.bytes": "1048576", "plugin.key": "x"}, cluster_wide=True)
    with pytest.raises(ConfigError, match="cannot change while the broker runs"):
        validate_broker_overrides(config, {"broker.id": "4"}, cluster_wide=False)
    with pytest.raises(ConfigError, match="for each broker by its id"):
        validate_broker_overrides(config, {"cordoned.log.dirs": "d"}, cluster_wide=True)
    with pytest.raises(ConfigError, match="whole number"):
        validate_broker_overrides(config, {"message.max.bytes": "x"}, cluster_wide=False)


def test_standalone_broker_has_one_replica_of_its_internal_topics() -> None:
    alone = load_broker_config({})
    member = load_broker_config({"zookeeper.connect": "z:2181"})
    key = "offsets.topic.replication.factor"
    assert (alone.stands_alone, alone[key]) == (True, 1)
    assert (member.stands_alone, member[key]) == (False, 3)
    assert load_broker_config({key: "2"})[key] == 2


def test_new_group_of_a_standalone_broker_does_not_wait_for_more_members() -> None:
    key = "group.initial.rebalance.delay.ms"
    assert load_broker_config({})[key] == 0
    assert load_broker_config({"zookeeper.connect": "z:2181"})[key] == 3000
    assert load_broker_config({key: "500"})[key] == 500


def test_node_id_and_broker_id_are_the_same_setting() -> None:
    assert load_broker_config({"node.id": "4"})["broker.id"] == 4
    assert load_broker_config({"broker.id": "4"})["node.id"] == 4
    with pytest.raises(ConfigError, match=r"must equal broker\.id"):
        load_broker_config({"node.id": "4", "broker.id": "5"})


@pytest.mark.parametrize(
    "value",
    ["zk", "zk:2181", "zk1:2181,zk2:2181/orders", "10.0.0.1:2181, [::1]:2181/a/b", "zk_1.example-x.com:2181/", ""],
)
def test_zookeeper_connect_accepts_a_chroot(value: str) -> None:
    assert load_broker_config({"zookeeper.connect": value})["zookeeper.connect"] == value


@pytest.mark.parametrize(
    "value",
    [
        "zk:21x81", "zk:99999", "zk:0", ":2181", "zk1:2181,,zk2:2181", "zk1:2181;zk2:2181", "zk1:2181 zk2:2181", ",",
        "http://zk:2181", "zk1:2181/a,zk2:2181/b", "zk:2181/a/", "zk:2181//a", "zk:2181:2182", "::1:2181",
    ],
)  # fmt: skip
def test_invalid_zookeeper_connect_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect='.*': must be host:port, separated by commas"):
        load_broker_config({"zookeeper.connect": value})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"segment.bytes": "3"}, "segment.bytes='3': must be at least 1048576"),
        ({"retention.ms": "-5"}, "retention.ms='-5': must be at least -1"),
        ({"nope.key": "1"}, "nope.key: unknown topic config name"),
        ({"cleanup.policy": "foo"}, "cleanup.policy='foo': may hold only"),
        ({"leader.replication.throttled.replicas": "x"}, "must be * or a list"),
        ({"leader.replication.throttled.replicas": "0:1,x"}, "must be * or a list"),
        ({"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "1"}, "must not be above max.compaction.lag.ms (1)"),
        ({"remote.storage.enable": "true"}, "Headrace does not support tiered storage"),
        ({"retention.ms": None}, "retention.ms: needs a value"),
        (
            {"replica.lag.time.max.ms": "499"},
            "replica.lag.time.max.ms='499': must not be below the broker's replica.fetch.wait.max.ms (500)",
        ),
    ],
)
def test_topic_overrides_are_refused_with_the_reason(overrides: dict[str, str | None], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        validate_topic_overrides(overrides)
    assert message in str(error.value)


def test_valid_topic_overrides_are_accepted() -> None:
    validate_topic_overrides(
        {
            "cleanup.policy": "compact,delete",
            "min-insync.replicas": "2",
            "leader.replication.throttled.replicas": "0:1,1:2",
            "flush.before.ack": "true",
            "replica.lag.time.max.ms": "500",
            "internal.segment.bytes": "100",
        }
    )
    topic = TopicConfig(load_broker_config({}), {"min-insync.replicas": "2", "internal.segment.bytes": "100"})
    assert topic["min.insync.replicas"] == 2
    assert topic["segment.bytes"] == 100  # the key for tests may be below the normal minimum


def test_group_overrides_stay_within_the_brokers_bounds() -> None:
    broker = load_broker_config({})
    validate_group_overrides({"consumer.session.timeout.ms": "50000"}, broker)
    for name, value, message in (
        ("consumer.session.timeout.ms", "5", "must not be below group.consumer.min.session.timeout.ms (45000)"),
        ("consumer.heartbeat.interval.ms", "60000", "must not be above group.consumer.max.heartbeat.interval.ms"),
        ("share.auto.offset.reset", "x", "must be latest, earliest or by_duration"),
        ("nope", "5", "nope: unknown group config name"),
    ):
        with pytest.raises(ConfigError) as error:
            validate_group_overrides({name: value}, broker)
        assert message in str(error.value)
    validate_group_overrides({"share.auto.offset.reset": "by_duration:PT1H"}, broker)
    narrower = load_broker_config({"group.consumer.max.session.timeout.ms": "50000"})
    assert GroupConfig(narrower, {"consumer.session.timeout.ms": "60000"})["consumer.session.timeout.ms"] == 50000
    assert GroupConfig(broker)["share.record.lock.duration.ms"] == 30000


def test_every_default_obeys_its_own_rule() -> None:
    for key in BROKER_KEYS.values():
        if key.rule is not None and key.default is not None:
            assert key.rule.holds(key.default), key.name


def test_cordoned_directories_are_log_directories_of_the_broker() -> None:
    config = load_broker_config({"log.dirs": "one,two", "cordoned.log.dirs": "two"})
    assert config.cordoned_log_dirs == ["two"]
    for good in ("one,two", "*", "", str(Path("one").absolute())):
        validate_broker_overrides(config, {"cordoned.log.dirs": good}, cluster_wide=False)
    for bad, why in (("three", r"three is not in log.dirs \(one, two\)"), ("one,*", "write it alone")):
        with pytest.raises(ConfigError, match=why):
            validate_broker_overrides(config, {"cordoned.log.dirs": bad}, cluster_wide=False)
        with pytest.raises(ConfigError, match=why):
            load_broker_config({"log.dirs": "one,two", "cordoned.log.dirs": bad})
