"""XML Schema 1.0 and 1.1, which the registry accepts only if a setting turns it on. In reading order:

`source`            text to elements without document types; canonical text
`parsed`            parses text, and implements the interface of `schema_types`
`content_model`     sequences of child elements as regular expressions, and whether one includes another
`model_building`    the regular expression of an element group
`comparison`        whether one schema accepts all documents of another: elements, attributes, complex types
`simple_types`      the same for simple types
"""
