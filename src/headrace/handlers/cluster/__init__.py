"""The cluster: brokers, elections, reassignments, log directories, features. In reading order:

`handlers`                        the handlers of cluster administration in one list
`api_versions`, `features`        APIs and feature levels that this broker supports
`describe_cluster`, `describe_quorum`, `describe_log_dirs`
`alter_partition`, `broker_heartbeat`, `assign_replicas_to_dirs`, `envelope`      brokers to the controller
`elect_leaders`, `alter_partition_reassignments`, `list_partition_reassignments`
`alter_replica_log_dirs`, `unregister_broker`, `update_features`
"""
