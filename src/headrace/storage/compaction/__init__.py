"""Compaction. In reading order:

`rounds`       over all logs of a broker: the dirtiest first
`job`          one log: what a round cleans, and how its result replaces the old segments
`cleaner`      the work of a round in a thread: maps the dirty part, copies the rest
`record_group` the records of several batches as arrays
`key_hashes`   hashes of many keys at once
`offset_map`   key to newest offset, bounded in memory
"""
