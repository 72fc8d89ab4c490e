"""The broker settings that storage as a whole uses; `log_config` has the settings of one topic's log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.config import BrokerConfig
from headrace.kernel.dataclass import dataclass


@dataclass(frozen=True)
class StorageSettings:
    directories: Sequence[Path]
    node_id: int = 0
    threads_per_directory: int = 2

    @classmethod
    def from_broker_config(cls, config: BrokerConfig) -> StorageSettings:
        return cls(
            [Path(directory.strip()) for directory in config.log_dirs],
            node_id=max(config.broker_id, 0),
            threads_per_directory=config.num_recovery_threads_per_data_dir,
        )
