"""Codecs of the coordinators' records, in Kafka's formats: Kafka's tools read our logs and we read Kafka's.

primitives     strings, arrays, ids, tagged fields
offsets        OffsetCommit (0, 1)
classic_groups GroupMetadata (2)
consumer_groups ConsumerGroup… (3–8, 16)
share_groups   ShareGroup… (10–15)
streams_topology StreamsGroupTopology (23)
streams_groups StreamsGroup… (17, 19–22)
rebalance_causes  why a member left: headers of the records of groups
share_state    ShareSnapshot, ShareUpdate of `__share_group_state`
transactions   TransactionLog of `__transaction_state`

A key is `int16 type` + fields; a value is `int16 version` + fields. An encoder returns bytes. A decoder raises
`UnreadableRecord` for an unknown type or version, and the coordinator skips such a record of a newer Kafka.
"""
