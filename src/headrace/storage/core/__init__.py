"""Pure decision functions of the log. In reading order:

`roll`                   when the active segment ends
`producers`              sequences against duplicates, and open transactions
`retention`              which of the oldest segments to delete
`compaction`             which part of a log compaction may clean, and how segments are grouped
`cleaned_transactions`   which transactional batches and markers compaction may remove
`recovery`               whether a batch is valid after a crash
`salvage`                finds valid batches behind a damaged one
"""
