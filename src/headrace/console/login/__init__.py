"""Login of people at a console whose brokers ask for one. In reading order:

`attempts`   how often a login may fail; pure
`sessions`   the sessions of browsers, in memory
`oidc`       the authorization code flow of an OpenID provider
`pages`      the login page, its form, the way back from the provider, logout

A session holds the credentials that the brokers accepted. The console uses them to act as its user and has no rights of
its own. Programs send `Authorization` or a certificate with each request instead and get no session.
"""
