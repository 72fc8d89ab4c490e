"""The web console: a process of its own that reaches brokers by the wire and the schema registry by HTTP. In reading
order:

`settings`      the clusters that a console serves, and what its users may see and change
`server`        the console on a bound socket
`application`   routes, protection, error pages
`trouble`       pages of errors, and the ways on from there
`visit`         one request: its cluster, its form, addresses of pages
`protection`    headers, the token of forms, names of the console
`notices`       messages that the next page shows once
`rendering`     a view as HTML or JSON
`confirmation`  the page before a change
`login`         sessions of browsers: password, OpenID provider
`core`          decisions without I/O: formats, tables, masking
`cluster`       what the console asks brokers
`records`       read, decoded, searched, exported, produced records
`pages`         one file per page
`templates`, `static` are Jinja templates and browser files; `static/vendor` comes from `make vendor`.
"""
