"""Recovery: opens a log when the broker starts. In reading order:

`recovery`            what to trust, what to check, what to rebuild
`segment_check`       reads suspect segments batch by batch; the first bad byte ends the log
`cuts`                keeps what recovery cuts from a log as a stray
`interrupted_swaps`   finishes a replacement of segments that a crash interrupted
`index_check`         checks index files against the data and rebuilds them
`batch_removal`       replaces unreadable batches by empty ones (a command of the operator)
`inspection`          verifies a log without changing it; `index_inspection` its indexes
"""
