"""Headrace: a Kafka-compatible streaming platform whose data pipelines run on Spark.

Read it in the order a request travels:

    net → wire → handlers → replication → storage → records

then what decides (cluster, controller, coordinators), what puts a broker together (broker), several on
one host (unit), and what people use (cli,
api, pipelines, tables, console, http, registry, demos; datagen makes test data; web is what HTTP services share).
Below them: config, kernel, coordination (the store), client (the wire client), serialization (records by the schemas
of a registry), security, quota, telemetry. testing holds brokers for tests.
ARCHITECTURE.md draws the picture; `lint-imports` keeps it true.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.api import connect as connect

__version__ = "0.1.0"


# Names for Python programs, imported when used: a broker starts without them.
_FUNCTIONS = {"connect": "headrace.api", "sql": "headrace.tables.library"}


def __getattr__(name: str) -> object:
    if name not in _FUNCTIONS:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_FUNCTIONS[name]), name)
