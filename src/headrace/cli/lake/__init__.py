"""Topics as tables, and SQL over both. In reading order:

`tables`      `headrace tables …`
`sql`         `headrace sql`
`spark_sql`   `headrace sql --engine spark` and `--follow`
`sql_worker`  one statement for the web console, in a process of its own
"""
