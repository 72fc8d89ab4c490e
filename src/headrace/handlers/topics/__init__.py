"""Topics: `metadata`, `describe_topic_partitions`, `create_topics`, `create_partitions`, `delete_topics`.

`partition_states`   one partition as Metadata and DescribeTopicPartitions show it
"""
