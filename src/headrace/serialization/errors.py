"""What can go wrong between a record and its schema.

RegistryError              the registry answered with an error: its code and its message
└── RegistryUnreachable    no registry answered, or it could not tell
SerializationError         a value does not fit its schema, or bytes are not a record of theirs
"""

from __future__ import annotations

from typing import Final

# The reason of a record that nests deeper than Python's own limit.
NESTED: Final = "the record nests too deeply"


class RegistryError(Exception):
    """`{"error_code": code, "message": message}` of a registry."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status: the first three digits of the code."""
        return self.code if self.code < 1000 else self.code // 100


class RegistryUnreachable(RegistryError):
    """The code is 50001, which a registry gives when its own store does not answer."""

    def __init__(self, message: str) -> None:
        super().__init__(50001, message)


class SerializationError(ValueError):
    pass
