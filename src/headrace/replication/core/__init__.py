"""Decisions of replication, pure: facts in, effects out, time as an argument."""
