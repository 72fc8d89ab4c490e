"""Apache Kafka as the reference for tests."""
