"""The coordination store: the small, strongly ordered tree on which a cluster agrees.

Read store (the port), core.tree (what its operations mean), embedded (one broker, a local file), zookeeper (clusters,
by kazoo, whose chatter kazoo_log thins out and whose exceptions kazoo_faults turns into the port's), last_will (what is
done when the process dies), first_questions (what a starting broker asks, and asks again), paths (the layout), letters
and letter_reader (requests to the controller that the wire does not carry), migration (from the one store to the
other), zookeeper_server (how to start a real ZooKeeper).
"""
