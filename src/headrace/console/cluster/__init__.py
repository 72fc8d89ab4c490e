"""What the console asks brokers, and keeps for a moment. In reading order:

`cluster`     one cluster of one user: its client, its facts, its samples
`facts`       brokers, topics, log directories and groups by one question to each broker
`offsets`     first offsets, ends and committed offsets of many partitions at once
`configs`     configuration of topics and brokers
`changes`     create, grow, configure, empty and delete topics
`groups`      members, positions, lag, reset and deletion of groups
`rebalances`  when and why a group rebalanced, from the records of its coordinator
`pipelines`   Spark flows as they report to the topic `__pipelines`
`producers`   who writes to topics, with rates
`recent_changes` what changed between two readings of the facts
`doctor`      what `headrace doctor` finds, from a process of its own
`notebook`    what the console remembers in the cluster
`administration` users, transactions, quotas, reassignments
`audit`       the newest denied requests
`sql`         statements over topics, each in a process of its own
`samples`     end offsets and lag over time, sampled in the background
"""
