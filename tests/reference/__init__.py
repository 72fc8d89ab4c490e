"""Apache Kafka as the reference."""
