"""Decisions of the log, pure: when to roll, what to delete, how far a damaged file can be trusted."""
