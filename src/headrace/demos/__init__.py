"""Case studies and use cases, one directory each. The CLI loads `command` by name, so this package may import `cli`.

`command`        `headrace demo …`
`program`        one demo as a program: files, brokers, faults in one sentence
`run`            one demo: pipeline or services, live picture, check
`catalogue`      the demos: their directories and what each shows
`stage`          what a story can do: send, start, kill, wait
`services`       processes that run `service.py` of a demo
`processes`      brokers and a web console that run as long as a demo
`postgres`       a PostgreSQL server that runs as long as a demo
`topics`         settings of topics, and their records, read again and again
`lake`           the tables of a pipeline, read without Spark
`streams`        what the transformations share
`picture`        panels: tables, charts, maps, feeds
`picture_text`   panels in a terminal
`screen`         the live screen: a headline and a picture that fits the terminal
`history`        charts of the lag and of chosen figures over time
`demo_topic`     the latest pictures in the topic `__demos`, for the web console
`errors`         what stops a demo
`wordcount`      the word count of Kafka's quickstart
`movieflix`      MovieFlix: positions to resume from, profiles, recommendations
`taxi`           GetTaxi: matches, surge prices, exact costs
`campaign`       two campaigns compared in event time
`social`         MySocialMedia: live totals of posts, trending posts
`cep`            a pattern over events
`metrics`        metrics collected, downsampled and watched
`logs`           log aggregation into one format
`bank`           MyBank: alerts on large transactions of a database
`ingestion`      files to topics to a lake; speed and batch layer
`activity`       website tracking: sessions, views per page
`queue`          a work queue beside publish-subscribe
`commitlog`      in-memory services that restore their state from a log
`cqrs`           commands, events, read models
`notifications`  messages formatted, sent, retried, dead letters
`recovery`       a service and a broker are killed
`replay`         a bug found, state rebuilt from offset 0
`datacenters`    two data centers mirrored, one lost

A demo directory has `README.md`, `data.yml` (what is generated), `schemas/`, and `check.py` (the same result in plain
Python, and the picture). With Spark it has `spark-pipeline.yml` and `transformations/`, else `service.py`. `story.py`
tells what happens, if more happens than records that arrive.
"""
