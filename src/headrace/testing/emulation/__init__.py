"""Earlier releases of Kafka. In reading order:

`kafka_releases`   their APIs and features
`older_release`    a broker limited to one of them
"""
