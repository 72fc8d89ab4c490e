"""The schema registry on the command line. In reading order:

`command`   `headrace registry`: runs an instance
`schemas`   `headrace schemas`: works with the schemas of a registry
`incompatibilities`   the registry's reasons against a schema, as sentences
"""
