"""Case studies and use cases, one directory each. The CLI loads `command` by name, so this package may import `cli`.

`command`      `headrace demo …`
`catalogue`    the demos: their directories and what each shows
`processes`    a broker and a web console that run as long as a demo
`topics`       reads whole topics, again and again
`streams`      what the transformations share
`run`          one demo: generator, pipeline, live screen, check
`wordcount`    the word count of Kafka's quickstart
`social`       MySocialMedia: live totals of posts, trending posts
`campaign`     two campaigns compared in event time
`movieflix`    MovieFlix: positions to resume from, profiles, recommendations
`taxi`         GetTaxi: matches, surge prices, exact costs
`cep`          a pattern over events
`metrics`      metrics collected, downsampled and watched
`logs`         log aggregation into one format

A demo directory has `README.md`, `data.yml` (what is generated), `spark-pipeline.yml` with `transformations/`, and
`check.py` (the same result without Spark, and the picture).
"""
