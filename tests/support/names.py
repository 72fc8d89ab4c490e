"""Names that no other test uses, for what outlives a test on a shared server: topics, groups, nodes of ZooKeeper."""

from __future__ import annotations

import uuid


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"
