"""The settings of the processes of a unit."""

from __future__ import annotations

import pytest

from headrace.config import BrokerConfig, ConfigError
from headrace.unit.core.processes import Unit, check_ports, process_settings, with_ports


def unit(count: int = 3, staying: int = 3, **settings: str) -> Unit:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig({"log.dirs": "/a,/b", "broker.processes": str(count), **named})
    return Unit(config, 4, count, staying, "host-1")


def test_ids_ports_and_directories_are_in_a_row() -> None:
    given = unit(listeners="PLAINTEXT://127.0.0.1:9092", advertised_listeners="PLAINTEXT://kafka.example:19092")
    first, third = process_settings(given, 0), process_settings(given, 2)
    assert (first["broker.id"], first["log.dirs"], first["listeners"]) == ("4", "/a,/b", "PLAINTEXT://127.0.0.1:9092")
    assert (third["broker.id"], third["log.dirs"]) == ("6", "/a/process.2,/b/process.2")
    assert third["listeners"] == "PLAINTEXT://127.0.0.1:9094"
    assert third["advertised.listeners"] == "PLAINTEXT://kafka.example:19094"
    assert first["broker.rack"] == third["broker.rack"] == "host-1"
    assert BrokerConfig(third).shares_store


def test_a_rack_of_the_settings_stays_and_only_the_first_process_has_a_registry() -> None:
    given = unit(broker_rack="r7", registry_listen="127.0.0.1:8081", metrics_listen="127.0.0.1:9404")
    first, second = process_settings(given, 0), process_settings(given, 1)
    assert first["broker.rack"] == second["broker.rack"] == "r7"
    assert (first["registry.listen"], second["registry.listen"]) == ("127.0.0.1:8081", "")
    assert first["metrics.listen"] == second["metrics.listen"] == "127.0.0.1:0"


def test_new_topics_are_not_placed_on_leaving_processes() -> None:
    given = unit(count=3, staying=2)
    assert [process_settings(given, index).get("cordoned.log.dirs") for index in range(3)] == [None, None, "*"]
    assert list(given.leaving) == [6]


def test_ports_that_do_not_exist_or_collide_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs the ports 65534 to 65536, and the last port is 65535"):
        check_ports(unit(listeners="PLAINTEXT://:65534").config, 3)
    two = "A://127.0.0.1:9092,B://127.0.0.1:9094"
    given = unit(
        listeners=two, listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT", inter_broker_listener_name="A"
    )
    with pytest.raises(ConfigError, match="the ports 9092 and 9094 must be at least 3 apart"):
        check_ports(given.config, 3)
    assert check_ports(given.config, 2) == [9092, 9094]


@pytest.mark.parametrize("text", ["0", "-1", "many", "257", "1.5"])
def test_a_number_of_processes_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be a number from 1 to 256, or auto"):
        BrokerConfig({"broker.processes": text})


def test_port_0_becomes_the_first_of_a_row() -> None:
    config = with_ports(unit(listeners="PLAINTEXT://127.0.0.1:0").config, [15000])
    assert process_settings(Unit(config, 0, 2, 2, "h"), 1)["listeners"] == "PLAINTEXT://127.0.0.1:15001"
