"""The schema registry on the command line. In reading order:

`command`   `headrace registry`: runs one
`schemas`   `headrace schemas`: the schemas in one
"""
