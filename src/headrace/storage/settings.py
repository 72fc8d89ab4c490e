"""What the broker's configuration says to storage as a whole; what it says to one topic's log is in `log_config`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace.kernel.dataclass import dataclass


class BrokerSettings(Protocol):
    def __getitem__(self, name: str, /) -> Any: ...


@dataclass(frozen=True)
class StorageSettings:
    directories: Sequence[Path]
    node_id: int = 0
    threads_per_directory: int = 2

    @classmethod
    def from_broker_config(cls, broker: BrokerSettings) -> StorageSettings:
        directories = broker["log.dirs"] or broker["log.dir"]
        if isinstance(directories, str):
            directories = directories.split(",")
        return cls(
            [Path(str(directory).strip()) for directory in directories],
            node_id=_node_id(broker),
            threads_per_directory=broker["num.recovery.threads.per.data.dir"],
        )


def _node_id(broker: BrokerSettings) -> int:
    for name in ("node.id", "broker.id"):
        try:
            value = broker[name]
        except KeyError:
            continue
        if value is not None and int(value) >= 0:
            return int(value)
    return 0
