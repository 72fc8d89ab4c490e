"""Client quotas: limits for produce, fetch, request time and topic changes, and the throttle time above a limit.

    core/rate          a rate measured over samples, and the throttle time that brings it below its limit
    core/token_bucket  a bucket that refills (for changes of topics)
    core/entities      the entities of quotas, and which quota applies
    quotas             the quotas of this broker, and the use of each client

The package only computes, with `now_ms` as an argument, and never waits. The event loop owns it.
"""

from __future__ import annotations

from headrace.quota.core.entities import Entity, QuotaTable
from headrace.quota.quotas import Quotas

__all__ = ["Entity", "QuotaTable", "Quotas"]
