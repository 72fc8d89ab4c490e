"""Errors of the registry: Confluent's error codes, each with the HTTP status that its first three digits name.

RegistryError           of `headrace.serialization`: its clients raise it too
├── NotFound            40401 … 40409
├── Incompatible        40901, with one message for each incompatibility
├── Unprocessable       42201 … 42211: the registry does not accept a value of the request
├── StoreFailed         50001 … 50004: the topic or the leading instance did not answer
└── BadRequest          400, 406, 415: the request is malformed
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from headrace.serialization.errors import RegistryError as RegistryError


class Code(IntEnum):
    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    VERSION_SOFT_DELETED = 40406
    VERSION_NOT_SOFT_DELETED = 40407
    NO_SUBJECT_CONFIG = 40408
    NO_SUBJECT_MODE = 40409
    INCOMPATIBLE = 40901
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_LEVEL = 42203
    INVALID_MODE = 42204
    NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    ID_MISMATCH = 42207
    INVALID_SUBJECT = 42208
    TOO_LARGE = 42209
    INVALID_RULES = 42210
    CONTEXT_NOT_EMPTY = 42211
    STORE = 50001
    TIMEOUT = 50002
    FORWARDING = 50003
    NO_LEADER = 50004


class NotFound(RegistryError):
    @classmethod
    def subject(cls, subject: str) -> NotFound:
        return cls(Code.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")

    @classmethod
    def version(cls, version: int) -> NotFound:
        return cls(Code.VERSION_NOT_FOUND, f"Version {version} not found.")

    @classmethod
    def schema(cls, what: object = None) -> NotFound:
        return cls(Code.SCHEMA_NOT_FOUND, "Schema not found" if what is None else f"Schema {what} not found")


class Unprocessable(RegistryError):
    pass


class InvalidSchema(Unprocessable):
    """The text is not a schema of its type. The message names the position and the reason."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.INVALID_SCHEMA, message)


class NotPermitted(Unprocessable):
    def __init__(self, message: str) -> None:
        super().__init__(Code.NOT_PERMITTED, message)


class Incompatible(RegistryError):
    def __init__(self, subject: str, messages: Sequence[str]) -> None:
        details = ", ".join(messages)
        super().__init__(
            Code.INCOMPATIBLE,
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
            f"details: [{details}]",
        )
        self.messages = tuple(messages)


class StoreFailed(RegistryError):
    pass


class BadRequest(RegistryError):
    pass
