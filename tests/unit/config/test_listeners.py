"""The addresses that the broker binds and advertises, and the errors for wrong settings."""

from __future__ import annotations

import pytest

from headrace.config import ConfigError, listener_from_argument, load_broker_config, resolve_listeners


def resolve(**properties: str):  # type: ignore[no-untyped-def]
    return resolve_listeners(load_broker_config({key.replace("_", "."): value for key, value in properties.items()}))


def test_by_default_only_this_machine_can_connect() -> None:
    listeners = resolve()
    assert [str(item) for item in listeners.bound] == ["PLAINTEXT://127.0.0.1:9092"]
    assert listeners.bound[0].is_loopback
    assert listeners.inter_broker == "PLAINTEXT"


def test_several_listeners_with_custom_names() -> None:
    listeners = resolve(
        listeners="INTERNAL://:9092, EXTERNAL://0.0.0.0:9093",
        advertised_listeners="INTERNAL://broker1:9092,EXTERNAL://example.org:19093",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        inter_broker_listener_name="INTERNAL",
    )
    assert [str(item) for item in listeners.bound] == ["INTERNAL://:9092", "EXTERNAL://0.0.0.0:9093"]
    assert str(listeners.advertised_for("EXTERNAL")) == "EXTERNAL://example.org:19093"
    assert listeners.inter_broker == "INTERNAL"


def test_port_chosen_by_the_system_is_advertised() -> None:
    listeners = resolve(listeners="PLAINTEXT://127.0.0.1:0").with_ports({"PLAINTEXT": 41234})
    assert str(listeners.advertised[0]) == str(listeners.bound[0]) == "PLAINTEXT://127.0.0.1:41234"


def test_ipv6_addresses_are_in_brackets() -> None:
    listeners = resolve(listeners="PLAINTEXT://[::1]:9092")
    assert (listeners.bound[0].host, str(listeners.bound[0])) == ("::1", "PLAINTEXT://[::1]:9092")
    assert listeners.bound[0].is_loopback


def test_controller_listener_of_a_kraft_file_is_not_opened() -> None:
    listeners = resolve(
        listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )
    assert [item.name for item in listeners.bound] == ["PLAINTEXT"]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"listeners": "localhost:9092"}, "must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://localhost:99999"}, "port must be between 0 and 65535"),
        ({"listeners": "OUTSIDE://localhost:1"}, "add OUTSIDE:PLAINTEXT to listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://a:2"}, "listener PLAINTEXT stands twice"),
        ({"listeners": "PLAINTEXT://a:1,SSL://a:1"}, "port 1 is taken by PLAINTEXT://a:1"),
        (
            {"listeners": "PLAINTEXT://0.0.0.0:9092"},
            "set advertised.listeners=PLAINTEXT://<this machine's address>:9092",
        ),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to that"),
        ({"advertised_listeners": "SSL://h:9092"}, "there is no listener SSL in listeners"),
        ({"inter_broker_listener_name": "OTHER"}, "is not among the advertised listeners"),
        ({"listener_security_protocol_map": "PLAINTEXT:TLS"}, "must be NAME:PLAINTEXT"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "say the same thing",
        ),
    ],
)
def test_error_for_a_wrong_listener_explains_the_fix(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve(**properties)
    assert message in str(error.value)


def test_plaintext_is_served_to_other_machines_only_if_named() -> None:
    assert listener_from_argument("9092") == "PLAINTEXT://127.0.0.1:9092"
    assert listener_from_argument("localhost:0") == "PLAINTEXT://localhost:0"
    assert listener_from_argument("PLAINTEXT://0.0.0.0:9092") == "PLAINTEXT://0.0.0.0:9092"
    with pytest.raises(ConfigError, match="say so, --listen PLAINTEXT://:9092"):
        listener_from_argument("0.0.0.0:9092")
    with pytest.raises(ConfigError, match=r"say so, --listen PLAINTEXT://10\.0\.0\.1:9092"):
        listener_from_argument("10.0.0.1:9092")
    with pytest.raises(ConfigError, match="must be HOST:PORT"):
        listener_from_argument("nonsense")
