"""Log directories. In reading order:

`identity`           the owner of a directory: cluster id, broker id, directory id
`nesting`            detects log directories inside of log directories
`log_dir`            one directory: its lock, its identity, its checkpoints, and whether it is offline
`log_dirs`           all logs of a broker over its directories
`log_table`          which log is in which directory; `directory_choice` chooses one for a new log
`start_recovery`     opens all logs at a start and continues interrupted moves
`contents`           finds the logs in a directory; `report` is what DescribeLogDirs and the doctor show
`future_logs`        copies of replicas that move to another directory
`checkpoints`        Kafka's small text files
`clean_offsets`      one of them: how far each log is compacted
`lazy_logs`          logs that have no files yet; `new_log_files` makes them
`delayed_deletion`   files that are renamed now and removed after `file.delete.delay.ms`
`strays`             logs that no topic of the cluster claims; `restoration` puts one back
`incomplete_logs`    marks logs that lack records, until they are fetched again
`unopened_log`       a log that no broker has open
"""
