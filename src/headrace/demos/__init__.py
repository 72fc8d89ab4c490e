"""Demonstrations, one folder each. The CLI loads `command` by its name, so this package may import `cli`.

`command`     `headrace demo …`
`wordcount`   the word count of Kafka's first steps
"""
