"""The APIs of the broker, in folders by area. One handler per API; small families of APIs share a file.

`dispatch`       reads a frame, calls its handler, writes the answer; the interface of handlers
`data`           produce, fetch, offsets and deletion of records
`topics`         metadata, creation, growth and deletion of topics
`groups`         consumer groups and their offsets
`shares`         share groups
`transactions`   producer ids and transactions
`cluster`        brokers, elections, reassignments, log directories, features
`configs`        configurations and client quotas
`telemetry`      metrics that clients push
`security`       login, ACLs, authorized operations
"""
