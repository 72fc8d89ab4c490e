"""Login and access rules: `sasl_handshake`, `sasl_authenticate`, `describe_user_scram_credentials`,
`alter_user_scram_credentials`, `delegation_tokens`, `describe_acls`, `create_acls`, `delete_acls`.

`acl_fields`   ACLs and filters of ACLs as the fields of requests hold them
"""
