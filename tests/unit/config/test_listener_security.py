"""Security settings of one listener: its own keys win, and settings without effect stop the start."""

from __future__ import annotations

import pytest

from headrace.config import (
    BrokerConfig,
    ConfigError,
    Source,
    describe_broker,
    listener_security,
    load_broker_config,
    resolve_listeners,
    validate_broker_overrides,
)
from headrace.config.listener_security import refuse_without_effect

TWO = {
    "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093",
    "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SASL_SSL",
    "inter.broker.listener.name": "INSIDE",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/all.pem",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_erin="hunter2";'


def test_key_of_a_listener_overrides_the_general_key() -> None:
    config = load_broker_config(
        TWO
        | {
            "listener.name.outside.ssl.keystore.location": "/outside.pem",
            "listener.name.outside.ssl.client.auth": "required",
            "listener.name.outside.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.outside.plain.sasl.jaas.config": JAAS,
            "listener.name.outside.connections.max.reauth.ms": "5000",
        }
    )
    assert config.warnings == []
    inside, outside = listener_security(config, "INSIDE"), listener_security(config, "outside")
    assert (inside.protocol, outside.protocol) == ("SSL", "SASL_SSL")
    assert (inside.ssl_keystore.location, outside.ssl_keystore.location) == ("/all.pem", "/outside.pem")
    assert inside.ssl_keystore.setting == "ssl.keystore"
    assert outside.ssl_keystore.setting == "listener.name.outside.ssl.keystore"
    assert (inside.ssl_client_auth, outside.ssl_client_auth) == ("none", "required")
    assert outside.sasl_enabled_mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert inside.sasl_enabled_mechanisms == ("SCRAM-SHA-256",)
    assert outside.jaas("PLAIN") == JAAS and outside.jaas("SCRAM-SHA-512") is None and inside.jaas("PLAIN") is None
    assert outside.for_mechanism("PLAIN", "sasl.server.max.receive.size") == 524_288
    assert (inside.connections_max_reauth_ms, outside.connections_max_reauth_ms) == (0, 5000)
    refuse_without_effect(config, resolve_listeners(config))


def test_a_dynamic_certificate_wins_over_the_file() -> None:
    name = "listener.name.outside.ssl.keystore.location"
    config = load_broker_config(TWO | {name: "/old.pem"}).with_dynamic({name: "/new.pem"})
    assert listener_security(config, "OUTSIDE").ssl_keystore.location == "/new.pem"
    assert listener_security(config, "INSIDE").ssl_keystore.location == "/all.pem"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"listener.name.outsde.ssl.keystore.location": "/x"}, "there is no listener outsde"),
        ({"listener.name.inside.sasl.enabled.mechanisms": "PLAIN"}, "listener inside uses SSL"),
        ({"listener.name.inside.plain.sasl.jaas.config": JAAS}, "listener inside uses SSL"),
    ],
)
def test_a_setting_that_no_listener_uses_stops_the_start(properties: dict[str, str], words: str) -> None:
    config = load_broker_config(TWO | properties)
    with pytest.raises(ConfigError, match=words) as error:
        refuse_without_effect(config, resolve_listeners(config))
    assert error.value.key in properties


@pytest.mark.parametrize(
    ("name", "value"),
    [("ssl.keystore.location", "/x"), ("ssl.client.auth", "required"), ("sasl.enabled.mechanisms", "SCRAM-SHA-512")],
)
def test_cve_2023_30450_tls_and_sasl_without_a_listener_that_uses_them_stop_the_start(name: str, value: str) -> None:
    config = load_broker_config({name: value})
    with pytest.raises(ConfigError, match="has no effect, because no listener uses") as error:
        refuse_without_effect(config, resolve_listeners(config))
    assert error.value.key == name
    assert value not in error.value.message
    config = load_broker_config({"ssl.client.auth": "none", "sasl.enabled.mechanisms": "GSSAPI"})
    refuse_without_effect(config, resolve_listeners(config))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {"ssl.keystore.location": ""},
            r"ssl.keystore.location: listener OUTSIDE uses SASL_SSL",
        ),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is not offered; name some of PLAIN, SCRAM-SHA-256"),
        ({"sasl.enabled.mechanisms": ""}, "needs one of PLAIN"),
        ({"listener.name.outside.sasl.enabled.mechanisms": "MAGIC"}, "MAGIC is not offered"),
    ],
)
def test_error_for_an_incomplete_listener_names_the_key_to_set(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        listener_security(load_broker_config(TWO | properties), "OUTSIDE")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("listener.name.outside.ssl.client.auth", "perhaps", "must be one of none, requested, required"),
        ("listener.name.outside.ssl.enabled.protocols", "TLSv1.1", "must hold one or more of TLSv1.2, TLSv1.3"),
        ("ssl.keystore.type", "BKS", "must be one of PEM, PKCS12, JKS"),
        ("ssl.protocol", "SSLv3", "must be one of TLS"),
    ],
)
def test_a_wrong_value_names_the_whole_key(name: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        load_broker_config(TWO | {name: value})
    assert error.value.key == name


def test_secrets_of_listeners_are_never_shown() -> None:
    config = load_broker_config(
        TWO
        | {
            "listener.name.outside.plain.sasl.jaas.config": JAAS,
            "listener.name.outside.ssl.key.password": "hunter2",
            "listener.name.outside.ssl.keystore.location": "/outside.pem",
        }
    ).with_dynamic({"listener.name.inside.ssl.keystore.location": "/inside.pem"})
    entries = {entry.name: entry for entry in describe_broker(config)}
    for name in (
        "listener.name.outside.plain.sasl.jaas.config",
        "listener.name.outside.ssl.key.password",
    ):
        assert entries[name].is_sensitive and entries[name].value is None
        assert [synonym.value for synonym in entries[name].synonyms] == [None]
    assert entries["listener.name.outside.ssl.keystore.location"].value == "/outside.pem"
    assert entries["listener.name.inside.ssl.keystore.location"].source is Source.DYNAMIC_BROKER
    assert "hunter2" not in repr(entries)


def _change(config: BrokerConfig, name: str, value: str) -> None:
    validate_broker_overrides(config, {name: value}, cluster_wide=False)


def test_certificates_change_while_the_broker_runs_for_one_listener_at_a_time() -> None:
    config = load_broker_config(TWO)
    _change(config, "listener.name.outside.ssl.keystore.location", "/new.pem")
    with pytest.raises(ConfigError, match=r"set listener\.name\.<name>\.ssl\.keystore\.location"):
        _change(config, "ssl.keystore.location", "/new.pem")
    with pytest.raises(ConfigError, match="is set for each broker by its id"):
        validate_broker_overrides(
            config, {"listener.name.outside.ssl.keystore.location": "/new.pem"}, cluster_wide=True
        )
    for name in ("listener.name.outside.ssl.client.auth", "listener.name.outside.sasl.enabled.mechanisms"):
        with pytest.raises(ConfigError, match="cannot change while the broker runs"):
            _change(config, name, "none")
    with pytest.raises(ConfigError, match="is a secret, and dynamic values are stored in clear text"):
        _change(config, "listener.name.outside.ssl.key.password", "hunter2")


@pytest.mark.parametrize(
    "name",
    ["listener.name.outside.plain.sasl.jaas.config", "sasl.jaas.config", "listener.name.outside.sasl.jaas.config"],
)
def test_cve_2023_25194_cve_2025_27818_no_client_changes_a_login_module(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        _change(load_broker_config(TWO), name, "com.sun.security.auth.module.JndiLoginModule required;")
    assert error.value.key == name
    assert "Jndi" not in error.value.message
