"""`headrace log …`: commands on the files of a log directory. In reading order:

`command`      dump, verify, recover
`copies`       copies of partitions for `recover --dry-run`
`skip`         replaces batches with unreadable records
`strays`       logs that a broker set aside: list, restore, remove
`standalone`   turns the directories of a cluster member into those of a standalone broker
"""
