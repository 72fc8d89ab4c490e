"""The log on disk in Kafka's own layout: segments, indexes, producer state, recovery, retention, compaction."""
