"""`headrace acl …`: access control lists and roles. In reading order:

`command`     lists, adds, removes and explains ACLs; the least rights of producers, groups and pipelines
`roles`       roles and their members
`changes`     creates and deletes ACLs, and reports each
`resources`   resources of ACLs on the command line
"""
