"""The isolation levels of a read, as Fetch, ListOffsets and share groups number them."""

from __future__ import annotations

from typing import Final

READ_UNCOMMITTED: Final = 0
# Reads end at the last stable offset, and records of aborted transactions are left out.
READ_COMMITTED: Final = 1
