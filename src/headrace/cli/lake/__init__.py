"""Topics as tables, and SQL over both. In reading order:

`tables`   `headrace tables …`
`sql`      `headrace sql`
"""
