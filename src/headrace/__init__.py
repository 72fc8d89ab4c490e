"""Headrace: a Kafka-compatible streaming platform whose data pipelines run on Spark.

Read it in the order a request travels:

    net → wire → handlers → replication → storage → records

then what decides (cluster, controller, coordinators) and what people touch (cli, pipelines).
ARCHITECTURE.md draws the picture; `lint-imports` keeps it true.
"""

__version__ = "0.1.0"
