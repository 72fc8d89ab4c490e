"""Login and access rules: `sasl_handshake`, `sasl_authenticate`, `describe_acls`, `create_acls`, `delete_acls`."""
