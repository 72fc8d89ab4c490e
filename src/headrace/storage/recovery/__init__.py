"""Opening a log after a start. In reading order:

`recovery`            what to trust, what to check, what to rebuild
`segment_check`       reads suspect segments batch by batch; the first bad byte ends the log
`cuts`                keeps the valid batches that a cut would lose
`interrupted_swaps`   finishes a replacement of segments that a crash interrupted
`index_check`         whether index files agree with the data, and rebuilding them
`batch_removal`       replaces batches that cannot be read by empty ones, on a person's command
`inspection`          looks at a log without changing it; `index_inspection` at its indexes
"""
