"""The coordination store: the small, strongly ordered tree on which a cluster agrees.

Read store (the port), core.tree (what its operations mean), embedded (one broker, a local file), zookeeper (clusters,
by kazoo, whose chatter kazoo_log thins out), paths (the layout), adoption (from the one to the other), zookeeper_server
(how to start a real ZooKeeper).
"""
