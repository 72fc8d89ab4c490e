"""Client quotas: how much a user or client may send, fetch, ask and change, and how long it waits when it took more.

    core/rate          a rate measured over samples, and the wait that brings it back under its limit
    core/token_bucket  an allowance that refills (for changes of topics)
    core/entities      whom a quota is for, and which one wins
    quotas             the quotas in force, and what each client has used

Everything is arithmetic on numbers and `now_ms`: the event loop owns it, nothing here waits.
"""

from __future__ import annotations

from headrace.quota.core.entities import Entity, QuotaTable
from headrace.quota.quotas import Quotas

__all__ = ["Entity", "QuotaTable", "Quotas"]
