"""Benchmarks of Headrace and Apache Kafka in one run on one machine: `make bench`, or `python -m benchmarks NAME…`.

`servers` starts either broker the same way, `load` generates load at little cost, `report` prints medians and ratios.
Each suite (`broker`, `log`, `groups`, …) lists its rows. Absolute figures depend on the machine, so the goals are
ratios.
"""
