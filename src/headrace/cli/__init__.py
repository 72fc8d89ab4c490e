"""The command line: one file per command; `kafka_tools/` holds the look-alikes behind `bin/kafka-*.sh`."""
