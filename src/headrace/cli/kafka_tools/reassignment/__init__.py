"""Parts of kafka-reassign-partitions:

`log_dir_moves`   replicas that a plan puts into a log directory of their broker
"""
