"""The APIs of the broker, in folders by area. One handler per API; small families of APIs share a file.

`dispatch`       from a frame to its handler and back; what every handler knows and offers
`data`           produce, fetch, offsets and deletion of records
`topics`         metadata, creation, growth and deletion of topics
`groups`         consumer groups and their offsets
`shares`         share groups
`transactions`   producer ids and transactions
`cluster`        brokers, elections, reassignments, log directories, features
`configs`        configurations and client quotas
`security`       login, access rules, authorized operations
"""
