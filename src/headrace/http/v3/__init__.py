"""Confluent's REST Proxy v3. In reading order:

`resources`       the common form of answers: kind, metadata, links
`clusters`        clusters and brokers
`topics`          topics: list, create, describe, delete, more partitions
`partitions`      partitions and replicas of a topic
`configs`         configs of topics, brokers and the cluster
`groups`          consumer groups, their members and lag
`acls`            ACLs
`records`         produce records; read a topic as a stream
"""
