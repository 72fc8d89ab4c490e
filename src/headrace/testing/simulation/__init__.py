"""A whole cluster in one process on virtual time: the same seed gives the same run, step by step.

virtual_loop   an event loop whose clock jumps to the next event
faults         probabilities of faults
network        requests between brokers: delayed, reordered, lost, duplicated, links cut in one direction
log            a replica's log in memory; a power cut removes records that are not flushed
store          ZooKeeper as its clients see it: stale reads, one-shot watches, sessions, lost connections
broker         one broker: the real replication and controller code on the simulated parts
serving        the requests that a simulated broker serves
cluster        a cluster of simulated brokers, store and network
history        acknowledged and read records, and the invariants that are checked after every step
modes          what a seed varies besides faults: cluster size, administration, disks, clocks, settings
nemesis        injects faults
reboots        faults in which a broker restarts before the cluster detects that it was down
operator       administration during the run: reassigns replicas, recreates topics, deletes records
scenario       a seeded run: load, faults, healing, convergence
"""
