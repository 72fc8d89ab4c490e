"""Pipeline directories with `spark-pipeline.yml`. In reading order:

`spec`                 the specification file
`templates`            the files that `headrace pipeline init` writes; `wordcount/` is one of them as a directory
`graph`                loads the definitions into a graph of outputs and flows
`session`              the Spark session of one pipeline
`run_lock`             one driver at a time
`running_flow`         one flow of a running pipeline
`flow_places`          what a flow reads and writes, as its reports name it
`flow_query`           the streaming query of a flow
`materialized_views`   writes the views that are computed as a whole
`runner`               runs all flows, continuously or once
`progress`             commits offsets to the consumer group and reports each flow to the topic `__pipelines`
`flow_control`         stops, starts, resets and replays flows as people ask it (topic `__pipeline_commands`)
`metrics`              numbers of the flows for Prometheus
`status_screen`        the table of `headrace pipeline status`
`checkpoint`           the offsets of a flow in Spark's checkpoint
`flow_names`           checkpoints of renamed and removed flows
`reset`                moves a flow to other offsets
`replay`               runs a flow again over a range of its past
`flow_testing`         runs the tests of a pipeline
`dead_letters`         lists dead letters and sends them back
`dead_letter_headers`  the headers of a dead letter
"""
