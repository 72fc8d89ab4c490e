"""One file per page or group of pages: from a visit to a view. `routes` has the address of each.

`overview`        brokers, health, throughput and lag at a glance
`topics`          the list of topics, and one topic
`messages`        records of a topic: pages, one record, search, live tail
`chosen_schema`   the schema that a person chooses for values
`export`          records as a file
`produce`         a record from a form, also a copy of another one
`redrive`         many records sent again
`searches`        saved searches
`groups`          the list with lag, one group, reset with a preview, deletion
`pipelines`       Spark flows: the list, and one flow with its history
`flow_commands`   stop, start, reset and replay of running flows
`flow`            producers, topics, their readers and targets as a picture
`demos`           the latest pictures of running demos
`schemas`         subjects, versions, differences, compatibility, registration
`sql`             statements over topics, with rows and a chart
`security`        users, roles, ACLs, denied requests, and whether a principal may do something
`operations`      transactions, quotas, reassignments, log directories, configuration of brokers
`reassignments`   drain a broker, cancel moves of partitions
`topic_changes`   create, configure, grow, empty and delete a topic
"""
