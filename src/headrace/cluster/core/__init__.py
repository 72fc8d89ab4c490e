"""Pure parts of the cluster image. In reading order:

`image`       everything that brokers agree on, as one immutable value with a version
`changes`     idempotent changes of the image
`delta`       what differs between two images
`losses`      replicas that lack records which their broker once stored
`cordons`     brokers that get no new replicas
`placement`   assigns the replicas of new partitions
`credentials` SCRAM credentials of users; `tokens` delegation tokens
`features`    feature levels (KIP-584)
"""
