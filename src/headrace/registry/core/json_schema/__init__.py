"""JSON Schema, drafts 4 to 2020-12. In reading order:

`node`            a schema within its document: resolves references, unifies the forms of old drafts
`parsed`          parses text, and implements the interface of `schema_types`
`comparison`      whether one schema accepts all values of another: types, combinations
`bounds`          limits of strings, numbers, arrays and objects
`objects`         properties by content model
`arrays`          items
`tags`            tags of objects and properties
"""
