"""One file per Kafka API; `table` lists them and is the only source of what ApiVersions answers."""
