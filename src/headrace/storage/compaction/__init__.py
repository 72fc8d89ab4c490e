"""Compaction. In reading order:

`rounds`       over all logs of a broker: the dirtiest first
`cleaner`      one log: maps the dirty part, copies the rest, swaps segments
`offset_map`   key to newest offset, bounded in memory
"""
