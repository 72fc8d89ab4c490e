"""The coordination store: a small, strongly ordered tree with the state of the cluster. In reading order:

`store`               the port: nodes with versions, atomic multi, ephemeral nodes, one-shot watches
`core`                the semantics of the operations, as a pure tree
`paths`               the layout of the nodes
`embedded`            the store of a standalone broker or of a unit, in two local files (`embedded_files`)
`unit`                the embedded store served to the processes of a unit over Unix sockets
`zookeeper_tls`       TLS to ZooKeeper, from the configuration
`zookeeper_session`   one session with a ZooKeeper ensemble through kazoo, and its lease
`zookeeper`           the store on that session; `kazoo_faults` translates kazoo's exceptions
`node_guard`          guards nodes that were made before `zookeeper.set.acl=true`
`kazoo_log`           limits the rate of kazoo's log messages
`handshake`           limits how long kazoo waits for ZooKeeper's answer to a new connection
`startup_retry`       repeats the first requests of a starting broker while the connection breaks
`companion`           a process that ends the ZooKeeper session of a dead broker
`fallback_channel`    requests to the controller through the store; `fallback_reader` is the controller's side
`migration`           moves the state of a standalone broker to ZooKeeper
`waiting`             waits for an event with a deadline
`zookeeper_server`    starts a real ZooKeeper server
"""
