"""Who a client is and what it may do: pure code that both sides of a connection need.

principal   names of users, and how they are printed
tls/        certificates and keys, TLS contexts, names in certificates, expiry
sasl/       PLAIN, SCRAM, OAUTHBEARER, delegation tokens; the login of one connection
acl/        access rules, and the authorizer that decides with them
setup       the files of a secured cluster, for `headrace security init`
"""
