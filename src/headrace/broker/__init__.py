"""One broker. The only package that imports all parts. In reading order:

`foreground`           runs a broker in its own process: signals, exit codes
`broker`               starts and stops the parts, in order
`registry_process`     the schema registry beside the broker
`environment`          the clock, the store and the request interceptor that the broker uses
`identity`             the owner of the log directories and of their topics; `core` decides
`wiring`               puts the parts together
`peers`                requests to other brokers
`listener_certificates`  the certificates of the TLS listeners
`access_control`       the authorizer of the broker, and its decisions in the log
`live_config`          the configuration file, overridden by dynamic values
`connection_limits`    limits of connections, from the configuration
`access_control`       the authorizer in force, made from the settings and the cluster image
`audit_topic`          denied requests as records in a topic
`auto_creation`        topics that clients and coordinators create by using them
`first_users`          SCRAM credentials before the first start
`standalone`           brings the topics of a former cluster member back to a standalone broker
`housekeeping`         flush, checkpoints, retention, compaction, expiry
`recovery_progress`    log lines about a recovery after an unclean stop
`loss_reports`, `full_disks`   reports of replicas that lack records, and of full disks, to the controller
`graceful_shutdown`    a stopping broker serves until clients use the new leaders
`broker_metrics`       the metrics of a broker
`lag`                  the lag of groups and Spark flows, measured in the background
"""
