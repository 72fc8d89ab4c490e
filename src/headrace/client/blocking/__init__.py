"""A synchronous client, for Spark's workers and other programs without an event loop. In reading order:

`connection`   one socket to one broker
`client`       requests to the right broker of a cluster
`fetch`        reads one partition from an offset on, one answer ahead
`produce`      writes batches to partitions, with or without a transaction
`flow_commands` commands of people for running pipelines, in the topic `__pipeline_commands`
"""
