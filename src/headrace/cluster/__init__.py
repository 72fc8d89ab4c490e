"""The cluster as an immutable image that brokers follow by version; placement of replicas."""
