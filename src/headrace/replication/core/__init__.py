"""Decisions of replication, pure: facts in, effects out, time as an argument. In reading order:

`isr`             in-sync replicas of one partition, and the high watermark
`leader`          what a leader checks before it answers a fetch
`follower`        how a follower comes to agree with its leader
`fetch_session`   the follower's side of an incremental fetch session (KIP-227)
`throttle`        how many bytes a second may be copied for throttled partitions
"""
