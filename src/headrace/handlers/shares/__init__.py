"""Share groups (KIP-932). In reading order:

`share_group_heartbeat`, `share_group_describe`   members
`share_fetch`, `share_acknowledge`                records; `share_answers` is their common part
`share_group_offsets`                             start offsets, for administrators (APIs 90 to 92)
`share_group_state`                               the share coordinator's own APIs, for brokers (83 to 87)
"""
