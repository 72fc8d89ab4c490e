"""Access control lists (ACLs): who may do what. Pure code. In reading order:

`model`        resource types, operations, pattern types, permissions; `Acl`, an entry with its resource
`hosts`        which client addresses the host of an ACL covers: an address, a CIDR range or every address
`authorizer`   the decision for one principal, host, operation and resource, with a cache
`roles`        principals `Role:name` and their members
`explain`      why a request is allowed or denied
`least_rights` what a producer, a consumer or a pipeline needs
`filters`      the filters of DescribeAcls and DeleteAcls
`store_format` ACLs as nodes of the coordination store
"""
