"""The transaction state machine, pure: facts in, the next transaction and the answer out.

Read `transaction` (what is remembered of one transactional id), then `initialisation`, `membership` and `ending`
(what a producer or the coordinator itself may do with it), then `queries` (what an administrator may ask).
"""
