"""The log on disk: Kafka's files, byte for byte. In reading order:

`log_config`        a topic's configuration as the log needs it
`segment`           one segment: its data file and its indexes
`segments`          the segments of one log in order: roll, cut, swap, flush
`log`               the log of one partition: its segments, and what is known about the records in them
`log_contents`      what a log consists of when it is opened
`leader_append`     checks a batch before a leader writes it; `follower_append` checks what the leader sent
`disk_faults`       maps disk errors to an answer or to an offline log
`close`             closes many logs at once
`leader_epochs`     which leader epoch began at which offset
`producer_state`    producers of a partition, with their snapshot files
`recovery`          opens a log when the broker starts: checks it and rebuilds its indexes
`compaction`        keeps the last record of each key
`dirs`              all logs of a broker over its log directories
`settings`          the broker's configuration as storage needs it
`files`             file primitives under all of them
`core`              pure decision functions, without I/O
"""
