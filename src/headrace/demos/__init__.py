"""Demonstrations, one directory each. The CLI loads `command` by name, so this package may import `cli`.

`command`     `headrace demo …`
`wordcount`   the word count of Kafka's quickstart
"""
