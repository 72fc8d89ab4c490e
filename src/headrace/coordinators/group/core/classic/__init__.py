"""Classic groups. In reading order:

`messages`            requests and answers, without wire versions
`group`               one group: its members, generation, protocol and leader
`join`                JoinGroup: admission, member ids, and whether a rebalance begins
`rebalance`           how a generation ends and the next one begins, with its timers
`membership`          SyncGroup, Heartbeat and LeaveGroup
`embedded_protocol`   encoding of subscriptions and assignments of consumers
"""
