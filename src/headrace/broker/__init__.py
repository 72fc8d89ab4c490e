"""One broker: the only package that knows everyone. In reading order:

`foreground`     a broker as the one thing its process does
`broker`         what is started and stopped, in which order
`identity`       whose the log directories are, and the store of their topics; `core.ownership` decides
`wiring`         the handlers and what each is given
`connection_limits`  how many connections may be open, from the settings
`live_config`    the broker's settings with the dynamic ones laid over
`housekeeping`   the clock's work: flush, checkpoints, retention, compaction, expiry
`auto_creation`  topics that come into being by being asked for
"""
