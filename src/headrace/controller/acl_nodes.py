"""Adopts ACLs that another program wrote to the store, such as kafka-acls of Kafka 3 with `--authorizer-properties`.

Such a program changes the nodes of ACLs and then creates a node under `/kafka-acl-changes` or
`/kafka-acl-extended-changes`. The active controller follows those two. After a new child it reads every node of ACLs,
and brings the image to what it read. It does the same once when its term begins, because a predecessor may have missed
an announcement.

The controller may write ACLs while it reads them. Then the read state is inconsistent, so it reads again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final

from headrace.cluster.loading import load_acls
from headrace.controller import acl_operations
from headrace.controller.ledger import Deposed, Ledger
from headrace.coordination.store import Store, StoreFault, log_level
from headrace.coordination.waiting import until
from headrace.security.acl import store_format

logger = logging.getLogger(__name__)

_LONGEST_UNSEEN: Final = 2.0
_PAUSE_AFTER_FAULT: Final = 0.5


class AclNodes:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._hint = asyncio.Event()

    async def run(self, ledger: Ledger) -> None:
        """Runs for one term of the controller. No other program can write to an embedded store."""
        if math.isinf(self._store.session_timeout):
            return
        announced: list[str] | None = None
        while True:
            self._hint.clear()
            try:
                found = await self._announcements()
                if found != announced:
                    await self._adopt(ledger)
                    announced = found
            except Deposed:
                return
            except StoreFault as fault:
                # Logs an unreadable node until it is corrected: until then the older ACLs are in force.
                why = fault.message or type(fault).__name__
                logger.log(log_level(fault, logging.ERROR), "cannot follow the nodes of ACLs: %s", why)
                await asyncio.sleep(_PAUSE_AFTER_FAULT)
            await until(self._hint, _LONGEST_UNSEEN)

    async def _announcements(self) -> list[str]:
        found = []
        for path in (store_format.LITERAL_CHANGES, store_format.EXTENDED_CHANGES):
            found += sorted(await self._store.children(path, watch=self._hint.set))
        return found

    async def _adopt(self, ledger: Ledger) -> None:
        while True:
            known = await ledger.run(acl_operations.current_acls)
            stored = await load_acls(self._store)
            if await ledger.run(acl_operations.adopt_acls(known, stored)):
                return
