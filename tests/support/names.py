"""Unique names for objects that outlive a test on a shared server: topics, groups, ZooKeeper nodes."""

from __future__ import annotations

import uuid


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"
