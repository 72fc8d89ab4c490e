"""One file per API; each handler is a frozen dataclass that declares the one to four services it needs.

`context`      what a handler knows about a request besides its body
`table`        the handlers that are served; ApiVersions and COMPATIBILITY.md are derived from it
`dispatcher`   a frame to its handler, and the handler's answer to bytes
"""
