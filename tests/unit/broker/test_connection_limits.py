"""Limits of connections as the settings write them."""

from __future__ import annotations

import pytest

from headrace.broker.connection_limits import connection_limits
from headrace.config import ConfigError, load_broker_config


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", {}),
        ("10.0.0.1:5", {"10.0.0.1": 5}),
        ("10.0.0.1:5, 127.0.0.1:0", {"10.0.0.1": 5, "127.0.0.1": 0}),
        ("::1:7,[fe80::1]:8", {"::1": 7, "fe80::1": 8}),
    ],
)
def test_an_address_may_have_a_limit_of_its_own(text: str, limits: dict[str, int]) -> None:
    config = load_broker_config({"max.connections.per.ip.overrides": text})
    assert connection_limits(config).per_ip_overrides == limits


def test_an_address_may_be_given_by_its_name() -> None:
    config = load_broker_config({"max.connections.per.ip.overrides": "localhost:3"})
    assert connection_limits(config).per_ip_overrides["127.0.0.1"] == 3


def test_a_host_that_has_no_address_is_named() -> None:
    config = load_broker_config({"max.connections.per.ip.overrides": "no.such.host.invalid:3"})
    with pytest.raises(ConfigError, match=r"no\.such\.host\.invalid.*has no address"):
        connection_limits(config)
    with pytest.raises(ConfigError, match="must be a list of address:count"):
        load_broker_config({"max.connections.per.ip.overrides": "10.0.0.1:-2"})


def test_more_connections_may_wait_than_kafkas_default_lets() -> None:
    assert connection_limits(load_broker_config({})).backlog == 1024
    assert connection_limits(load_broker_config({"socket.listen.backlog.size": "4096"})).backlog == 4096
