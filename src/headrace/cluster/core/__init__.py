"""Pure parts of the cluster image. In reading order:

`image`       everything that brokers agree on, as one immutable value with a version
`changes`     absolute values, so that applying one twice does no harm
`delta`       what differs between two images
`placement`   where the replicas of new partitions go
`credentials` SCRAM credentials of users; `tokens` delegation tokens
`features`    feature levels (KIP-584)
"""
