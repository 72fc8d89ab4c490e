"""The registry over HTTP. In reading order:

`paths`         contexts, subjects and content types of a request
`answers`       versions as JSON
`forwarding`    forwards a write to the leading instance
`writes`        runs a write here or forwards it
`rights`        what a caller may do, by the brokers' ACLs
`visibility`    which subjects a caller may see
`subjects`      /subjects and /compatibility
`schemas`       /schemas and /contexts
`settings`      /config and /mode
`application_info`  routes about the registry itself
`guard`         checks rights before a route runs
`application`   all routes, and errors as answers
`serving`       runs the store and uvicorn
"""
