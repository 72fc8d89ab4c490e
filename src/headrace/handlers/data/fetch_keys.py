"""How a fetch identifies a partition: by the topic's name, or from v13 on by the sixteen bytes of the topic id."""

from __future__ import annotations

Key = tuple[str | bytes, int]
