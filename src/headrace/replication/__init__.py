"""Partitions as this broker holds them: role, epoch, in-sync replicas, high watermark, waiting, following.

Reading order: `core/isr` (what counts as committed), `core/leader` (what a leader checks before it answers),
`core/follower` (how a follower comes to agree with its leader), `replica` and `partition` (one replica: its log, then
its role), `waiters` (who waits for progress), `deletions` (records let go by every replica), `partitions` (all of them,
following the cluster image), `fetcher` (the connection to one leader), `fetchers` (which leaders to follow),
`isr_changes` (asking the controller).
"""
