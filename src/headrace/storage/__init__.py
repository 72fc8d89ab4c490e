"""The log on disk: Kafka's files, byte for byte. In reading order:

`log_config`        a topic's configuration as the log needs it
`segment`           one segment: its data file and its indexes
`log`               the log of one partition: segments in order, and what is known about their records
`leader_append`     appends as a leader; `follower_append` appends what the leader sent
`roll`, `flush`, `close`
`truncation`        makes a log shorter: at its end, wholly, or at its start
`leader_epochs`     which leader epoch began at which offset
`producer_state`    producers of a partition, with their snapshot files
`recovery`          opens a log after a start: what to trust, check and rebuild
`compaction`        keeps the last record of each key
`dirs`              all logs of a broker over its log directories
`settings`          the broker's configuration as storage needs it
`files`             file primitives under all of them
`core`              the decisions, without a disk
"""
