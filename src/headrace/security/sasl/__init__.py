"""SASL: the mechanisms of both sides, and the login of one connection. No sockets, no clock, no event loop.

mechanism           what a mechanism offers the login: a token in, an outcome out
plain               PLAIN: user names and passwords from the configuration
scram_credentials   SCRAM: what a broker stores of a password, and how it is derived
scram               SCRAM-SHA-256 and SCRAM-SHA-512: the messages and both sides
oauthbearer         OAUTHBEARER: the messages and both sides
token_source        where a client gets its OAUTHBEARER token, from its settings
jwt_tokens          JSON Web Tokens: signature and claims
jwks                the published keys of an identity provider
tokens              delegation tokens and their passwords
jaas                `sasl.jaas.config`: login modules and their options
client_login        the client's side of a login
session             how long a login is valid, and when the client may authenticate again (KIP-368)
server_login        the state machine of one connection: frames in, steps out
"""
