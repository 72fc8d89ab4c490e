"""One segment of a log. In reading order:

`segment`        a data file and its indexes, named after the first offset they may hold
`index_file`     the file under an index: preallocated while the segment is active
`offset_index`   offset to position; `time_index` timestamp to offset; `txn_index` aborted transactions
`batch_scan`     iterates over a data file: headers only, or whole batches
`time_lookup`    offsets by time over all segments of a log
"""
