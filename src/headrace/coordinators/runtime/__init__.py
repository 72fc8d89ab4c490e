"""The coordinator runtime. In reading order:

`result`    result of an operation: records, a reply, replies to waiting callers, timers
`log`       the port to the log under a shard, and its implementation on a led partition
`internal_topic`   an internal topic as its coordinator uses it
`timers`    timers of one shard, by key
`commits`   replies that wait for their records to be committed
`loading`   replays a log into its shard
`shard`     one hosted partition: runs operations, appends their records, answers when they are committed
`runtime`   all hosted partitions of one internal topic
"""
