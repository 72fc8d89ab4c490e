"""Protobuf. In reading order:

`file`            a .proto file as a tree
`parsing`         text to tree
`descriptors`     FileDescriptorProto to tree and back
`printing`        tree to canonical text
`built_in`        files that every schema may import
`names`           full names of types
`normalization`   a tree in normal form
`tags`            tags of messages and fields
`compatibility`   whether a new file may follow an old one
`parsed`          all of them behind the interface of `schema_types`
"""
