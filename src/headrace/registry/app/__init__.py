"""The registry over HTTP. In reading order:

`paths`         contexts, subjects and content types of a request
`answers`       versions as JSON
`forwarding`    a write passed on to the leading instance
`writes`        a write here or there
`subjects`      /subjects and /compatibility
`schemas`       /schemas and /contexts
`settings`      /config and /mode
`application`   all routes, and errors as answers
`serving`       the store and uvicorn around it
"""
