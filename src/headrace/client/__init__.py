"""A small Kafka wire client for broker-to-broker calls, the command line and pipelines."""
