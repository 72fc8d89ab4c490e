"""The checks of `headrace doctor`, one subject per file. In reading order:

`diagnosis`   runs all checks in order; without a connection only the first ones
`findings`    a finding: the observation and the remedy
`reach`       the address, its protocol, and the addresses that brokers advertise
`certificates`  certificates that have expired or soon will
`zookeeper`   a ZooKeeper without ACLs or TLS, or with commands that show too much
`replicas`    partitions without a leader or with too few in-sync replicas
`strays`      logs that were set aside and use disk space
`machines`    disks that are nearly full, clocks that differ
`groups`      groups that rebalance often, transactions left open
`lag`         groups whose lag grows, and the cause
`history`     the generations of a group, from the coordinator's records
`worker`      the checks for the web console, in a process of its own
"""
