"""The word count demo. The pipeline itself is a template: `pipelines/flows/wordcount/`.

`demo`          starts a broker, runs the pipeline, checks the counts
`screen`        the live table, or plain lines without a terminal
`sample_text`   the input lines
"""
