"""Every key of Kafka is honoured, harmless with a reason, warned about by name, or refused."""

from __future__ import annotations

import logging

import pytest

from headrace.broker.live_config import LiveConfig
from headrace.cluster.core.image import ClusterImage
from headrace.config import (
    BROKER_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    ConfigError,
    Key,
    Type,
    Update,
    load_broker_config,
    resolve_listeners,
    validate_broker_overrides,
    validate_group_overrides,
    validate_topic_overrides,
)
from headrace.config.effect import Outcome
from headrace.config.key import format_value

# The keys that Apache Kafka 3.9.1 has and 4.3.0 does not have.
ONLY_IN_KAFKA_3 = """
auto.include.jmx.reporter broker.id.generation.enable control.plane.listener.name controlled.shutdown.max.retries
controlled.shutdown.retry.backoff.ms delegation.token.master.key eligible.leader.replicas.enable
group.coordinator.new.enable group.share.enable group.share.max.groups inter.broker.protocol.version
leader.imbalance.per.broker.percentage log.message.downconversion.enable log.message.format.version
log.message.timestamp.difference.max.ms metadata.log.segment.min.bytes offsets.commit.required.acks
password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret reserved.broker.max.id
zookeeper.clientCnxnSocket zookeeper.connect zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
zookeeper.metadata.migration.enable zookeeper.metadata.migration.min.batch.size zookeeper.session.timeout.ms
zookeeper.set.acl zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable zookeeper.ssl.crl.enable
zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol
zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type
"""
SECURITY = ("ssl.", "sasl.", "zookeeper.ssl.", "delegation.token.", "password.encoder.", "authorizer.", "principal.")
ALL_KEYS = [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]


def another_value(key: Key) -> str:
    """A value of the key's type that is not its default and breaks no rule."""
    default = key.default
    by_type: dict[Type, list[str]] = {
        Type.BOOLEAN: ["false" if default else "true"],
        Type.DOUBLE: ["0.25"],
        Type.LIST: ["anything", "classic", "broker", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"],
    }
    numbers = [str((default or 0) + step) for step in (1, -1, 1000)] if isinstance(default or 0, int) else []
    for text in by_type.get(key.type, [*numbers, "SSL", "anything"]):
        try:
            value = Key(key.name, key.type, default, key.doc, key.rule).parse(text)
        except ConfigError:
            continue
        if value != default:
            return text
    raise AssertionError(f"no other value found for {key.name}")


def keys_with(outcome: Outcome, *, among: list[Key]) -> list[Key]:
    return [key for key in among if key.effect.outcome is outcome]


STATIC = [key for key in BROKER_KEYS.values() if not key.dynamic_only]


@pytest.mark.parametrize("key", keys_with(Outcome.REFUSED, among=STATIC), ids=lambda key: key.name)
def test_a_refused_key_stops_the_start_unless_it_has_its_default(key: Key) -> None:
    with pytest.raises(ConfigError) as error:
        load_broker_config({key.name: another_value(key)})
    assert error.value.key == key.name and key.effect.why in error.value.message
    if key.default is not None or key.type in (Type.STRING, Type.CLASS, Type.LIST, Type.PASSWORD):
        assert load_broker_config({key.name: format_value(key.type, key.default) or ""}).warnings == []
    if key.type is Type.PASSWORD:
        assert another_value(key) not in error.value.message


@pytest.mark.parametrize("key", keys_with(Outcome.WARNED, among=STATIC), ids=lambda key: key.name)
def test_key_without_effect_gives_one_warning_that_names_it(key: Key) -> None:
    config = load_broker_config({key.name: another_value(key)})
    (warning,) = config.warnings
    assert warning.startswith(f"{key.name}='") and key.effect.why in warning
    assert load_broker_config({key.name: format_value(key.type, key.default) or ""}).warnings == []


@pytest.mark.parametrize("key", keys_with(Outcome.HARMLESS, among=STATIC), ids=lambda key: key.name)
def test_a_harmless_key_is_accepted_without_a_warning_and_says_why_it_has_no_effect(key: Key) -> None:
    config = load_broker_config({key.name: another_value(key)})
    assert config.warnings == [] and len(key.effect.why) > 10


def test_reasons_are_clauses_and_honoured_keys_have_none() -> None:
    for key in ALL_KEYS:
        assert bool(key.effect.why) != (key.effect.outcome is Outcome.HONOURED), key.name
        assert not key.effect.why.endswith("."), key.name


def test_no_security_key_is_ignored() -> None:
    claims = [key for key in BROKER_KEYS.values() if key.name.startswith(SECURITY)]
    ignored = {key.name for key in claims if key.effect.outcome in (Outcome.HARMLESS, Outcome.WARNED)}
    # OpenSSL does these itself, or they are for a KRaft controller or for tickets of Kerberos, which is not offered:
    # ignoring them does not reduce security.
    assert ignored == {
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.kerberos.ticket.renew.jitter",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
        "sasl.mechanism.controller.protocol",
    }
    assert len(claims) > 90


def test_every_key_of_kafka_3_is_declared() -> None:
    assert [name for name in ONLY_IN_KAFKA_3.split() if name not in BROKER_KEYS] == []


def test_a_topic_or_group_key_is_honoured_harmless_or_refused_because_nothing_could_show_a_warning() -> None:
    broker = load_broker_config({})
    for key in (*TOPIC_KEYS.values(), *GROUP_KEYS.values()):
        assert key.effect.outcome is not Outcome.WARNED, key.name
    for key in keys_with(Outcome.REFUSED, among=list(TOPIC_KEYS.values())):
        with pytest.raises(ConfigError, match=key.effect.why):
            validate_topic_overrides({key.name: another_value(key)}, broker)
    for key in keys_with(Outcome.REFUSED, among=list(GROUP_KEYS.values())):
        with pytest.raises(ConfigError, match=key.effect.why):
            validate_group_overrides({key.name: another_value(key)}, broker)


@pytest.mark.parametrize(
    "key",
    [
        key
        for key in BROKER_KEYS.values()
        if key.update is not Update.READ_ONLY and key.effect.outcome is Outcome.REFUSED
    ],
    ids=lambda key: key.name,
)
def test_a_running_broker_refuses_the_change_of_a_refused_key(key: Key) -> None:
    with pytest.raises(ConfigError, match=key.effect.why):
        validate_broker_overrides(load_broker_config({}), {key.name: another_value(key)}, cluster_wide=False)


def test_a_running_broker_refuses_new_listeners_because_it_reads_them_from_the_file_only() -> None:
    config = load_broker_config({})
    for name, text in (("listeners", "PLAINTEXT://127.0.0.1:1"), ("listener.security.protocol.map", "A:PLAINTEXT")):
        with pytest.raises(ConfigError, match=r"set it in server\.properties"):
            validate_broker_overrides(config, {name: text}, cluster_wide=False)
        assert config.with_dynamic({name: text})[name] == config[name]


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.locaton",
        "sasl.enabled.mechanism",
        "zookeeper.ssl.client.enabled",
        "authorizer.class",
        "listener.name.internal.ssl.keystore.locaton",
        "listener.name.sasl_ssl.scram-sha-128.sasl.jaas.config",
        "listener.name.sasl_ssl.sasl.jaas.config",
        "listener.name.sasl_ssl.sasl.mechanism.inter.broker.protocol",
        "scram-sha-256.sasl.jaas.config",
        "sasl.jaas.config",
        "listener.name.internal.ssl.provider",
        "listener.name.internal.principal.builder.class",
    ],
)
def test_a_security_key_that_is_misspelled_or_for_one_listener_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_broker_config({name: "x"})
    assert error.value.key == name
    with pytest.raises(ConfigError):
        validate_broker_overrides(load_broker_config({}), {name: "x"}, cluster_wide=False)


def test_a_misspelled_security_key_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean ssl\.keystore\.location\?"):
        load_broker_config({"ssl.keystore.locaton": "x"})
    with pytest.raises(ConfigError, match=r"did you mean listener\.name\.internal\.ssl\.keystore\.location\?"):
        load_broker_config({"listener.name.internal.ssl.keystore.locaton": "x"})


def test_a_limit_of_one_listener_is_warned_about() -> None:
    config = load_broker_config({"listener.name.internal.max.connections": "5"})
    assert config.warnings == [
        "listener.name.internal.max.connections: a listener has no such setting of its own. Ignored."
    ]


def test_inter_broker_protocol_without_a_listener_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"security\.inter\.broker\.protocol='SSL': no advertised listener has"):
        resolve_listeners(load_broker_config({"security.inter.broker.protocol": "SSL"}))
    named = {"security.inter.broker.protocol": "PLAINTEXT"}
    assert resolve_listeners(load_broker_config(named)).inter_broker == "PLAINTEXT"
    only_tls = {"listeners": "SSL://127.0.0.1:9093"}
    with pytest.raises(ConfigError, match="no advertised listener has this protocol"):
        resolve_listeners(load_broker_config(named | only_tls))


def test_kafkas_sample_file_starts_a_broker_and_warns_only_about_the_quorum() -> None:
    config = load_broker_config(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "num.network.threads": "3",
            "num.io.threads": "8",
            "socket.send.buffer.bytes": "102400",
            "socket.receive.buffer.bytes": "102400",
            "log.dirs": "/tmp/kraft-combined-logs",
            "num.recovery.threads.per.data.dir": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }
    )
    (warning,) = config.warnings
    assert warning.startswith("controller.quorum.bootstrap.servers='localhost:9093' has no effect: ")
    assert [listener.name for listener in resolve_listeners(config).bound] == ["PLAINTEXT"]


def test_dynamic_change_without_effect_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    live = LiveConfig(load_broker_config({"request.timeout.ms": "31000"}), 1)
    reporters = {"metric.reporters": "com.example.Reporter"}
    before = ClusterImage()
    once = ClusterImage(configs={("broker", ""): reporters})
    again = ClusterImage(configs={("broker", ""): reporters | {"log.cleaner.threads": "2"}})
    with caplog.at_level(logging.WARNING):
        live.follow(before, once)
        live.follow(once, again)
    assert [record.message.partition("=")[0] for record in caplog.records] == ["metric.reporters"]
