"""Pure decision functions of replication; time is an argument. In reading order:

`isr`             in-sync replicas of one partition, and the high watermark
`leader`          what a leader checks before it answers a fetch
`follower`        how a follower truncates its log to agree with the leader
`fetch_session`   the follower's side of an incremental fetch session (KIP-227)
`throttle`        byte rate limit for throttled partitions
"""
