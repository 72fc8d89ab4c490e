"""Puts the parts of a broker together. In reading order:

`parts`                everything between the sockets and the logs
`context`              the interface of a broker for its coordinators
`coordinators`         the coordinators of transactions, groups and share groups
`shares`               share groups: the share partitions of this broker and their durable state
`logins`               which of the next four a broker needs
`inter_broker`         how this broker authenticates to other brokers
`listener_logins`      mechanisms and users of the SASL listeners
`plain_users`          the users of PLAIN, from the configuration and from a file
`token_checks`         how OAUTHBEARER tokens are checked
`data_handlers`, `group_handlers`, `share_handlers`, `transaction_handlers`,
`telemetry_handlers`   lists of handlers with their services
"""
