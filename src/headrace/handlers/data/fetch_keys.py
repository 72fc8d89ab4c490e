"""How a fetch names a partition: by the topic's name, or by the sixteen bytes of its id from v13 on."""

from __future__ import annotations

Key = tuple[str | bytes, int]
