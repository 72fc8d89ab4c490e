"""The parts of a log when it is opened. Recovery builds them from the files."""

from __future__ import annotations

from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.storage.dirs.checkpoints import LEADER_EPOCH_FILE
from headrace.storage.dirs.delayed_deletion import DelayedDeletions
from headrace.storage.leader_epochs import LeaderEpochs
from headrace.storage.log_config import LogConfig
from headrace.storage.producer_state import ProducerState
from headrace.storage.segments import Segments


@dataclass(frozen=True, slots=True)
class LogContents:
    """Segments, leader epochs, producer state and offsets."""

    segments: Segments
    leader_epochs: LeaderEpochs
    producers: ProducerState
    log_start_offset: int = 0
    log_end_offset: int = 0
    high_watermark: int = 0

    @classmethod
    def empty(cls, directory: Path, config: LogConfig, deletions: DelayedDeletions, *, now_ms: int) -> LogContents:
        """The contents of a new log, in memory only."""
        segments = Segments.in_memory(directory, config, deletions, now_ms=now_ms)
        return cls(segments, LeaderEpochs(directory / LEADER_EPOCH_FILE), ProducerState(directory))
