"""Headrace: a Kafka-compatible streaming platform whose data pipelines run on Spark.

Read it in the order a request travels:

    net → wire → handlers → replication → storage → records

then what decides (cluster, controller, coordinators), what puts a broker together (broker) and what people use (cli,
pipelines, registry, demos). Below them: config, kernel, coordination (the store), client (the wire client), security,
quota, telemetry. testing holds brokers for tests.
ARCHITECTURE.md draws the picture; `lint-imports` keeps it true.
"""

__version__ = "0.1.0"
