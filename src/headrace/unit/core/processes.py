"""The settings of each process of a unit, from the settings of the unit.

Process i has the broker id of the first plus i, each listener on its port plus i, and its own log directories:
`<directory>/process.<i>`, on the same disks. The first process has the directories themselves, so a standalone broker
becomes the first process of a unit, and the other way round, without moving a file. The name has no number after a
dash, so it is no partition's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from headrace.broker.core.ownership import PROCESS_DIRECTORY_PREFIX
from headrace.config import BrokerConfig, ConfigError, resolve_listeners
from headrace.config.broker_config import ALL_LOG_DIRS
from headrace.kernel.dataclass import dataclass

_PORT: Final = re.compile(r":(\d+)\s*$")
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Unit:
    """`staying`: how many processes remain; the others hand their partitions over and stop."""

    config: BrokerConfig
    first_id: int
    count: int
    staying: int
    rack: str

    @property
    def ids(self) -> range:
        return range(self.first_id, self.first_id + self.count)

    @property
    def leaving(self) -> range:
        return range(self.first_id + self.staying, self.first_id + self.count)


def log_dirs_of(config: BrokerConfig, index: int) -> list[str]:
    return [
        directory if index == 0 else f"{directory.strip().rstrip('/')}/{PROCESS_DIRECTORY_PREFIX}{index}"
        for directory in config.log_dirs
    ]


def check_ports(config: BrokerConfig, count: int) -> list[int]:
    """The ports of the first process. Raises ConfigError if those of the others do not exist or collide."""
    listeners = resolve_listeners(config)
    ports = sorted(one.port for one in listeners.bound if one.port)
    for port in ports:
        if port + count - 1 > _LAST_PORT:
            raise ConfigError(
                "broker.processes",
                str(count),
                f"needs the ports {port} to {port + count - 1}, and the last port is {_LAST_PORT}: use a lower port "
                "in listeners (--listen), or fewer processes",
            )
    for port, next_port in pairwise(ports):
        if next_port - port < count:
            raise ConfigError(
                "listeners",
                ",".join(config["listeners"]),
                f"each process adds its number to every port, so with {count} processes the ports {port} and "
                f"{next_port} must be at least {count} apart",
            )
    return ports


def process_settings(unit: Unit, index: int) -> dict[str, str]:
    """All settings of one process."""
    config = unit.config
    settings = dict(config.originals)
    settings.pop("node.id", None)
    settings |= {
        "broker.id": str(unit.first_id + index),
        "broker.processes": str(unit.count),
        "log.dirs": ",".join(log_dirs_of(config, index)),
        "listeners": ",".join(_shifted(config["listeners"], index)),
        # The supervisor has the endpoint and asks every process.
        "metrics.listen": "127.0.0.1:0" if config.metrics_listen else "",
    }
    if config["advertised.listeners"]:
        settings["advertised.listeners"] = ",".join(_shifted(config["advertised.listeners"], index))
    if not config.broker_rack:
        settings["broker.rack"] = unit.rack
    if index > 0:
        settings["registry.listen"] = ""
    if index >= unit.staying:
        settings["cordoned.log.dirs"] = ALL_LOG_DIRS
    return settings


def _shifted(listeners: Sequence[str], by: int) -> list[str]:
    return [_PORT.sub(lambda match: f":{int(match[1]) + by}", text.strip()) for text in listeners]


def with_ports(config: BrokerConfig, first_ports: Sequence[int]) -> BrokerConfig:
    """Each listener with port 0 gets the next of `first_ports`."""
    left = iter(first_ports)

    def port(text: str) -> str:
        match = _PORT.search(text)
        return _PORT.sub(f":{next(left)}", text.strip()) if match is not None and int(match[1]) == 0 else text.strip()

    return config.with_static({"listeners": ",".join(port(text) for text in config["listeners"])})
