"""Metrics that clients push (KIP-714):

`otlp`             reads the numbers of a pushed OpenTelemetry message
`pushed_metrics`   keeps the last values of each client, bounded in number and time
"""
