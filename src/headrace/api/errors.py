"""Errors of the Python API.

ApiError
├── NoSchema            a type has no Avro schema
├── SchemaRefused       the registry refuses the schema of a type
├── WrongValue          a value does not fit the type of its topic
├── DeliveryFailed      a record was not delivered
├── ReadFailed          the brokers refuse to be read
└── NotPossible         arguments that contradict each other
"""

from __future__ import annotations


class ApiError(Exception):
    """The message is a sentence for the developer."""


class NoSchema(ApiError):
    pass


class SchemaRefused(ApiError):
    pass


class WrongValue(ApiError):
    pass


class DeliveryFailed(ApiError):
    pass


class ReadFailed(ApiError):
    pass


class NotPossible(ApiError):
    pass
