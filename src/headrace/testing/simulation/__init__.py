"""A whole cluster in one process on virtual time: the same seed gives the same run, step by step.

virtual_loop   an event loop whose clock jumps to the next event
faults         how often things go wrong
network        requests between brokers: delayed, reordered, lost, doubled, links cut one way
log            a replica's log in memory, with a durable part and a part that a power cut takes
store          ZooKeeper as its clients see it: stale reads, one-shot watches, sessions, lost connections
broker         the real replication and controller code of one broker on these parts
serving        what it answers to brokers and clients
cluster        brokers, store and network put together
history        what was acknowledged and read, and the invariants checked after every step
modes          what a seed brings beside faults: size, operations, disks, clocks, settings
nemesis        what goes wrong, and when it hurts most
reboots        brokers that are back before anybody knows that they were gone
operator       what people ask of a cluster meanwhile: replicas moved, topics made anew, records deleted
scenario       a seeded run: load, faults, healing, convergence
"""
