"""DescribeConfigs shows the source of each value, as in Kafka."""

from __future__ import annotations

from headrace.config import (
    ConfigEntry,
    Source,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
    load_broker_config,
)


def one(entries: list[ConfigEntry]) -> ConfigEntry:
    assert len(entries) == 1
    return entries[0]


def shown(entry: ConfigEntry) -> list[tuple[str, str | None, Source]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]


def test_value_of_a_topic_has_the_synonyms_it_overrides() -> None:
    broker = load_broker_config({}).with_dynamic(cluster_default={"log.retention.ms": "5000"})
    entry = one(describe_topic(broker, {"retention.ms": "1000"}, ["retention.ms"]))
    assert (entry.value, entry.source, entry.config_type, entry.is_read_only) == (
        "1000",
        Source.DYNAMIC_TOPIC,
        5,
        False,
    )
    assert shown(entry) == [
        ("retention.ms", "1000", Source.DYNAMIC_TOPIC),
        ("log.retention.ms", "5000", Source.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "168", Source.DEFAULT),
    ]


def test_lag_time_of_a_topic_overrides_the_brokers() -> None:
    broker, name = load_broker_config({"replica.lag.time.max.ms": "9000"}), "replica.lag.time.max.ms"
    inherited = one(describe_topic(broker, {}, [name]))
    assert (inherited.value, inherited.source) == ("9000", Source.STATIC_BROKER)
    own = one(describe_topic(broker, {name: "1000"}, [name]))
    assert (own.value, own.source, own.is_read_only) == ("1000", Source.DYNAMIC_TOPIC, False)
    assert shown(own) == [
        (name, "1000", Source.DYNAMIC_TOPIC),
        (name, "9000", Source.STATIC_BROKER),
        (name, "30000", Source.DEFAULT),
    ]


def test_leading_synonyms_in_another_unit_are_dropped_as_in_kafka() -> None:
    broker = load_broker_config({"log.roll.hours": "24"})
    entry = one(describe_topic(broker, {}, ["segment.ms"]))
    assert (entry.value, entry.source, entry.synonyms) == ("86400000", Source.DEFAULT, [])


def test_broker_description_marks_read_only_keys_and_sources() -> None:
    broker = load_broker_config({"num.partitions": "4"}).with_dynamic({"log.segment.bytes": "5000000"})
    entry = one(describe_broker(broker, ["num.partitions"]))
    assert (entry.value, entry.source, entry.is_read_only) == ("4", Source.STATIC_BROKER, True)
    assert shown(entry) == [("num.partitions", "4", Source.STATIC_BROKER), ("num.partitions", "1", Source.DEFAULT)]
    entry = one(describe_broker(broker, ["log.segment.bytes"]))
    assert (entry.value, entry.source, entry.is_read_only) == ("5000000", Source.DYNAMIC_BROKER, False)
    rate = "leader.replication.throttled.rate"
    assert describe_broker(broker, [rate]) == []
    assert shown(one(describe_broker(broker.with_dynamic({rate: "9"}), [rate]))) == [(rate, "9", Source.DYNAMIC_BROKER)]
    assert one(describe_broker(broker, ["log.cleaner.io.max.bytes.per.second"])).value == "1.7976931348623157E308"


def test_cluster_default_shows_only_stored_values_and_hides_undeclared_keys() -> None:
    entries = describe_cluster_default({"message.max.bytes": "2000", "plugin.secret": "x"})
    assert [(entry.name, entry.value, entry.is_sensitive) for entry in entries] == [
        ("message.max.bytes", "2000", False),
        ("plugin.secret", None, True),
    ]


def test_a_group_inherits_from_the_broker() -> None:
    broker = load_broker_config({})
    entry = one(describe_group(broker, {"consumer.session.timeout.ms": "50000"}, ["consumer.session.timeout.ms"]))
    assert shown(entry) == [
        ("consumer.session.timeout.ms", "50000", Source.GROUP),
        ("group.consumer.session.timeout.ms", "45000", Source.DEFAULT),
    ]
    entry = one(describe_group(broker, {}, ["share.auto.offset.reset"]))
    assert shown(entry) == [("share.auto.offset.reset", "latest", Source.DEFAULT)]
