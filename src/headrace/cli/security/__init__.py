"""`headrace security …`: certificates, users and settings of a secured cluster. In reading order:

`command`   the group of commands
`init`      certificates, an administrator and settings in one step
`users`     the first users, without a running broker
"""
