"""The checks of `headrace doctor`, one subject a file. In reading order:

`diagnosis`   every check in order; without a connection only the first ones run
`findings`    a finding: what was seen, and what to do about it
`reach`       the address, the protocol spoken there, and the addresses that brokers advertise
`certificates`  certificates that have expired or soon will
`replicas`    partitions without a leader or with too few in-sync replicas: which, and since when
`strays`      logs that were set aside and use disk space
`machines`    disks that are nearly full, clocks that differ
`groups`      groups that rebalance often, transactions left open
`lag`         groups whose lag grows, and the cause
`history`     the generations of a group, from the coordinator's records
"""
