"""A small Kafka wire client. In reading order:

`errors`           errors between a client and a broker, beyond error codes
`server_kind`      what kind of server answers at an address
`identity_provider` requests to an identity provider
`bearer_tokens`    the OAUTHBEARER tokens of a client
`security`         TLS and SASL, from Kafka's own setting names
`librdkafka_security` the same for librdkafka
`contexts`         named clusters that commands and programs share
`login`            the client's side of a SASL login on an event loop
`connection`       one asyncio connection to one broker
`shown_certificate` the certificate that a server shows, and how long it is valid
`cluster_client`   requests to the right broker of a cluster; one connection to each
`scram_users`      SCRAM credentials as requests and command lines name them
`acls`             the ACLs of a cluster
`offsets`          offsets of many partitions at once
`group_members`    members of groups and their assignments
`places`           parses offsets and times: "10 minutes ago"
`positions`        the offsets of many partitions at such a time
`record_fetch`     records of many partitions on an event loop
`record_sender`    an idempotent producer on an event loop
`topic_names`      the names of all topics by one exchange on a plain socket
`blocking`         the same for programs without an event loop: Spark's workers
"""
