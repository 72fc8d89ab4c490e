"""Kafka's request and response bodies on top of kio's schemas; hand-tuned Produce and Fetch."""
