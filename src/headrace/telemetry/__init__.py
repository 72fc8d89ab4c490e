"""Metrics and log set-up."""
