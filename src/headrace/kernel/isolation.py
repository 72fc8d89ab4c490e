"""The isolation levels of a read, as Fetch, ListOffsets and share groups number them."""

from __future__ import annotations

from typing import Final

READ_UNCOMMITTED: Final = 0
# The read ends at the last stable offset and skips records of aborted transactions.
READ_COMMITTED: Final = 1
