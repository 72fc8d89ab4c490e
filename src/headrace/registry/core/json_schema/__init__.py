"""JSON Schema, drafts 4 to 2020-12. In reading order:

`node`            a schema within its document: references resolved, forms of old drafts made equal
`parsed`          text to document, and the document behind the interface of `schema_types`
`comparison`      whether one schema accepts everything that another accepts: types, combinations
`bounds`          limits of strings, numbers, arrays and objects
`objects`         properties by content model
`arrays`          items
"""
