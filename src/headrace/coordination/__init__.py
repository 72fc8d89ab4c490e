"""The coordination store: one port, an embedded implementation for one broker, ZooKeeper for clusters."""
