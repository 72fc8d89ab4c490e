"""Facts about topics and groups that several commands show. In reading order:

`topic_facts`       metadata, offsets and sizes, partition by partition
`topic_sizing`      how many partitions, replicas and disks a topic needs
`group_positions`   groups of every type: names, descriptions, positions
`group_lag`         the lag of groups and how it changes
`pipeline_topics`   the topics that a pipeline reads and writes, as its files name them
`pipeline_rights`   the rights that these topics need, by the clusters of the pipeline
"""
