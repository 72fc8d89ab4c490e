"""Typed topics for Python programs: `headrace.connect()`. Thin over confluent-kafka; brokers by the wire only.

    cluster = headrace.connect("localhost:9092")
    orders = cluster.topic("orders", Order)
    orders.send(Order(id="1", amount=9.5), key="ann")
    for record in orders.read(group="kitchen"):
        ...

In reading order:

`cluster`          a connection: topics, transactions, administration
`topic`            a topic as a typed collection: send, read, follow, queue, frames
`record`           what a reader gets
`reader`           consumers of a group, and readers without one
`sender`           the producer of a cluster: back-pressure, errors of delivery
`transaction`      consume, transform and produce in one transaction
`bounded_call`     a call of the C library with a deadline
`queue`            share groups
`frames`           topics as Arrow, pandas, Polars and DuckDB tables
`arrow_columns`    topics as Arrow columns without an object for each record
`live_table`       the newest records of a topic in a notebook
`administration`   topics, groups and lag
`value_codec`      values of a topic as bytes, text, JSON or records of a schema registry
`value_types`      dataclasses, Pydantic models, msgspec structs and TypedDicts, read and built
`derived_schema`   the Avro schema of a type
`errors`           what can go wrong
"""

from headrace.api.cluster import Cluster, connect

__all__ = ["Cluster", "connect"]
