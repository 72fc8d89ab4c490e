"""The registry over HTTP. In reading order:

`paths`         contexts, subjects and content types of a request
`answers`       versions as JSON
`forwarding`    forwards a write to the leading instance
`writes`        runs a write here or forwards it
`subjects`      /subjects and /compatibility
`schemas`       /schemas and /contexts
`settings`      /config and /mode
`application`   all routes, and errors as answers
`serving`       runs the store and uvicorn
"""
