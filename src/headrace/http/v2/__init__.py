"""Confluent's REST Proxy v2. In reading order:

`formats`         content types, and keys and values by the format that they name
`topics`          topics, partitions and brokers
`produce`         records to a topic or a partition
`partition_read`  records of a partition without a consumer
`group_member`    a member of a consumer group: heartbeats and assignment (KIP-848)
`instance`        a consumer instance: what it reads, its positions and commits
`instances`       all consumer instances; their owners and their end
`consumers`       the endpoints of consumer instances
"""
