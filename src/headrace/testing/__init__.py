"""Shipped for tests: an in-process broker, clusters, simulated clock, network, disk and store."""
