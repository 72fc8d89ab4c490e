"""SQL over topics and tables on Spark: for big statements and for streams. In reading order:

`relations`        topics and tables as views of Spark, with the names and columns that DuckDB's relations have
`statements`       runs a statement once, or follows it
`saved_pipeline`   `CREATE PIPELINE … AS SELECT …` as a pipeline directory
"""
