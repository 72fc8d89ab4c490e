"""Share-group state that a test can rebuild from its log at any time."""

from __future__ import annotations

import uuid

from headrace.coordinators.codec.share_state import ShareKey
from headrace.coordinators.runtime.result import Result
from headrace.coordinators.share.core.share_state import ShareStateShard

KEY = ShareKey("g", uuid.UUID(int=7), 0)


class States:
    """A shard of share-group state that a test can rebuild from its log at any time."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, bytes | None]] = []
        self.shard = ShareStateShard(updates_per_snapshot=4)

    def apply(self, result: Result) -> object:
        for record in result.records:
            assert record.key is not None
            self.shard.replay(record.key, record.value, len(self.log), -1, -1)
            self.log.append((record.key, record.value))
        return result.reply

    def reload(self) -> None:
        self.shard = ShareStateShard(updates_per_snapshot=4)
        for offset, (key, value) in enumerate(self.log):
            self.shard.replay(key, value, offset, -1, -1)
