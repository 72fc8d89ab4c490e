"""Data pipelines on Spark: session, source, sink, connectors, mirror, runner. Reaches brokers by the wire only."""
