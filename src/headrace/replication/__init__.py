"""The partitions of this broker: role, leader epoch, in-sync replicas, high watermark. In reading order:

`core`             pure decision functions
`replica`          one replica: its log, its high watermark, following a leader
`partition`        one replica with its role; `offset_lookup` answers ListOffsets
`waiters`          fetches and produce requests that wait for progress
`deletions`        records that every replica has deleted
`partitions`       all replicas of this broker, following the cluster image
`lost_logs`        replicas that lack records; `losses_at_start` finds them
`throttles`        replication throttles of this broker
`leader_channel`   the wire to one leader; `fetcher` fetches over it; `fetchers` chooses the leaders
`log_copy`         copies a log to another directory of this broker; `replica_moves` are all such moves
`isr_changes`      asks the controller to store in-sync replicas
`service`          replication of one broker, put together
"""
