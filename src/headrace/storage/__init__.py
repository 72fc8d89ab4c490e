"""The log on disk: Kafka's files, byte for byte.

Reading order: `log_config` (a topic's settings), `segment` over `index_file`, `offset_index`, `time_index`,
`txn_index`, believed as far as `hints` says; `log` with `leading` and `following` (appends), `rolling`, `flushing`,
`time_lookup`, `cutting` (truncation and retention), `leader_epochs`, `producer_state`; `recovery`, `checking`,
`recovery_cuts` and `swaps` (opening); `closing`; `promises` and `fresh` (new logs); `cleaner` and `compaction_rounds`;
`log_dir` and `log_dirs` (all logs of a broker) with `settings`, `directory_contents` and `directory_report`; `strays`
(logs that no topic claims) with `restoration`; `inspection` and `unopened_log` (files that no broker has open);
`checkpoints` and `files` under them all. `core` holds the decisions without a disk.
"""
