"""Decisions of a start, pure: `ownership` (whose a directory is), `topics_from_logs` (topics that logs name)."""
