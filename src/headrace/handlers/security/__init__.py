"""Login and access rules: `sasl_handshake`, `sasl_authenticate`, `describe_acls`, `create_acls`, `delete_acls`.

`authorized_operations`   the operations a client may do, as the bit fields of Metadata and the group descriptions
"""
