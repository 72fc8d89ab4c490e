"""Broker keys of security. Remove the `effect` of a key to honour it.

`tls`             TLS of listeners
`sasl`, `oauth`   SASL: mechanisms, logins, Kerberos; OAuth bearer tokens
`access`          access control, delegation tokens, stored secrets
`zookeeper_tls`   TLS to ZooKeeper
"""
