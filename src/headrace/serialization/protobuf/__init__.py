"""Protobuf payloads. In reading order:

`built_in_files`   files that every schema may import
`values`           a message as Python values
`codec`            both directions behind the interface of `codecs`
"""
