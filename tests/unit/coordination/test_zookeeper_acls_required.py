"""A broker with SASL users stores credentials in ZooKeeper only if its configuration says how they are protected."""

from __future__ import annotations

import asyncio

import pytest

from headrace.config import BrokerConfig, ConfigError
from headrace.coordination.zookeeper import open_zookeeper

SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "zookeeper.connection.timeout.ms": "1",
}


def refusal(**settings: str) -> ConfigError | None:
    properties = {**SASL, **{name.replace("_", "."): value for name, value in settings.items()}}
    try:
        asyncio.run(open_zookeeper(BrokerConfig(properties)))
    except ConfigError as error:
        return error
    except Exception:
        return None  # there is no ZooKeeper
    raise AssertionError("a ZooKeeper answered")


@pytest.mark.parametrize("connect", ["127.0.0.1:2", "192.0.2.1:2/chroot", "192.0.2.1"])
def test_sasl_needs_a_decision_about_node_acls(connect: str) -> None:
    found = refusal(zookeeper_connect=connect)
    assert found is not None and found.key == "zookeeper.set.acl"
    assert "true with zookeeper.digest.user" in found.rule


@pytest.mark.parametrize(
    "settings",
    [
        {"zookeeper_connect": "127.0.0.1:2", "zookeeper_set_acl": "false"},
        {"zookeeper_connect": "127.0.0.1:2", "listeners": "PLAINTEXT://127.0.0.1:0", "sasl_enabled_mechanisms": ""},
    ],
    ids=str,
)
def test_a_named_decision_and_listeners_without_sasl_are_accepted(settings: dict[str, str]) -> None:
    assert refusal(**settings) is None
