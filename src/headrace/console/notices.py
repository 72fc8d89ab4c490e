"""Messages that the next page shows once.

The address holds only a random id, so that a link cannot bring its own text.
"""

from __future__ import annotations

import secrets
from typing import Final

_KEPT: Final = 200


class Notices:
    def __init__(self) -> None:
        self._messages: dict[str, str] = {}

    def keep(self, message: str) -> str:
        name = secrets.token_urlsafe(9)
        self._messages[name] = message
        while len(self._messages) > _KEPT:
            del self._messages[next(iter(self._messages))]
        return name

    def take(self, name: str) -> str | None:
        return self._messages.pop(name, None)
