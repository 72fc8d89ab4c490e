"""Decisions of a start, pure: `ownership` (which broker and cluster own a directory), `topics_from_logs` (topics
rebuilt from logs).
"""
