"""Benchmarks beside Apache Kafka in one run on one machine: `make bench`, or `python -m benchmarks NAME…`.

`servers` starts either broker the same way, `load` makes traffic that costs little itself, `report` prints medians and
ratios. Each suite (`broker`, `log`, `groups`, …) lists its rows. Absolute figures belong to the machine they were
measured on; the ratio is what is asked.
"""
