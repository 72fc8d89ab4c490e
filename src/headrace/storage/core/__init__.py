"""Decisions of the log, pure. In reading order:

`roll`                   when the active segment ends
`producers`              sequences against duplicates, and open transactions
`retention`              which of the oldest segments may go
`compaction`             what compaction may touch, and how segments are put together
`cleaned_transactions`   which batches of transactions compaction may leave out
`recovery`               how far the bytes of a segment can be trusted
`salvage`                which batches behind a damaged one are kept
"""
