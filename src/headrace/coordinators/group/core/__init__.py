"""Pure state machines of groups, in reading order.

effects             what an operation asks for: records, answers, timers
settings            the configuration values that groups depend on
classic_group       one classic group: its members, generation, protocol, leader
classic_messages    what clients of the classic protocol ask and get
classic_joining     JoinGroup and the join phase
classic_membership  SyncGroup, Heartbeat, LeaveGroup, expiry
offsets             committed offsets, and those that wait for their transaction
consumer_protocol   the bytes that classic consumers put into subscriptions and assignments
"""
