"""Code that Kafka's tools share. In reading order:

`options`            options in Kafka's style: one declaration gives the parser, the checks and the help table
`tool`               runs a tool: options, connection, exit code
`connection_check`   checks that a broker answers and the topic exists, before librdkafka starts
`outages`            reports that brokers do not answer while a tool runs
`librdkafka`         client settings in Java's spelling, for librdkafka
`tables`             columns as Kafka's tools print them
`json_files`         JSON files that tools take
`events`             one JSON object per line: output of the verifiable tools
`latencies`          average, maximum and percentiles
`processes`          starts servers in the foreground or background, and stops them
`line_reader`        lines to records: the console producer
`formatters`         records to lines: the console consumer
`internal_records`   records of the coordinators' topics as text
`group_records`      the same for consumer, share and streams groups and share state
`group_view`         groups listed and described
`group_offsets`      committed offsets of a group, log end offsets, resets
`share_offsets`      share groups and the start offsets of their share partitions
`config_entities`    the entities of kafka-configs
`scram_configs`      SCRAM credentials in kafka-configs
`feature_levels`     the feature levels of Kafka's releases
"""
