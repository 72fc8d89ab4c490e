"""Partitions: leaders, followers, in-sync replicas and the high watermark; `core/` decides, the shell moves bytes."""
