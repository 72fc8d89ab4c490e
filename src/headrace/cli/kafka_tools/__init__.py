"""Kafka's own command-line tools, one file per tool, started by `bin/kafka-*.sh`. Flags, output and exit codes are
those of Kafka 4.3; older spellings from the documentation are accepted too. The tools share `support`;
`reassignment` has parts of one tool.

Topics:       `topics` (its work is in `topic_command`), `configs`, `delete_records`, `get_offsets`
Records:      `console_producer`, `console_consumer`, `console_share_consumer`, `dump_log`
Schemas:      `schema_consoles`
Groups:       `groups`, `consumer_groups`, `share_groups`, `streams_groups` (its tables are in `streams_tables`);
              `group_actions` has what they share
Cluster:      `cluster`, `features`, `broker_api_versions`, `log_dirs`, `acls`, `delegation_tokens`, `transactions`,
              `client_metrics`
Replicas:     `reassign_partitions`, `leader_election`, `replica_verification`
Measurement:  `producer_perf`, `consumer_perf`, `e2e_latency`, `verifiable_producer`, `verifiable_consumer`
Storage:      `storage`
By class:     `run_class`
Processes:    `server_start`, `server_stop`, `zookeeper_start`, `zookeeper_stop`, `zookeeper_shell`
"""
