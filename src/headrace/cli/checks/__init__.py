"""What the doctor looks at, one subject a file; `findings` is what each gives.

reach       the address as given, the protocol spoken there, and the addresses that brokers advertise
replicas    partitions without a leader or with too few in-sync replicas: which, and since when
strays      logs that were set aside and hold disk space
machines    disks nearly full, clocks that differ
groups      why a group rebalances, transactions left open
lag         groups whose lag grows, and why
history     the generations of a group, as the coordinator wrote them down
"""
