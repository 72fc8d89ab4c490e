"""TLS: certificates and keys, contexts of listeners and clients, names in certificates, expiry.

material        keys and certificates from PEM files, PEM text and PKCS12 stores
cipher_suites   versions and suites that are offered
server_context  TLS of a listener, and its renewal while connections live
client_context  TLS towards a broker or ZooKeeper
names           distinguished names (RFC 2253), and the rules that make principals of them
authority       a certificate authority of one's own, for `headrace security init`
expiry          how long certificates are valid, in words

Imported only where TLS is used: `cryptography` takes a tenth of a second to load.
"""
