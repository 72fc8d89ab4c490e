"""How a record of the plan is recognised: a token in its value, which the application copies to its output.

A token is plain text without spaces, for example `chaos-4f09ac-k07-123`: the run, the key, the number of the record
among the records of its key. It survives JSON, Avro, Protobuf and text.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

from headrace.testing.chaos.history import Value

PLACEHOLDER: Final = "{id}"


class Tokens:
    """The tokens of one run. Records of other runs are not recognised."""

    def __init__(self) -> None:
        self.run = secrets.token_hex(3)
        self._pattern = re.compile(rf"chaos-{self.run}-(k\d+)-(\d+)".encode())

    def text(self, value: Value) -> str:
        return f"chaos-{self.run}-{value.producer}-{value.number}"

    def find(self, *places: bytes | None) -> Value | None:
        """The first token in a key or a value."""
        for data in places:
            found = None if data is None else self._pattern.search(data)
            if found is not None:
                return Value(found[1].decode(), int(found[2]))
        return None
