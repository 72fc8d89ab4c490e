"""Broker keys of OAuth bearer tokens over SASL. Honour one by removing its `effect`."""

from __future__ import annotations

from headrace.config.effect import refused
from headrace.config.key import Importance, Key, Type

BOOLEAN = Type.BOOLEAN
CLASS = Type.CLASS
INT = Type.INT
LIST = Type.LIST
LONG = Type.LONG
PASSWORD = Type.PASSWORD
STRING = Type.STRING
LOW = Importance.LOW

NOT_OFFERED = refused("a broker gets its own token from a file or by the client-credentials grant")


KEYS = (
    Key(
        "org.apache.kafka.sasl.oauthbearer.allowed.urls",
        LIST,
        [],
        "Addresses from which the broker may read the keys of OAUTHBEARER tokens and get its own tokens. "
        "Kafka has it as a Java property.",
        importance=LOW,
        static_only=True,
        ours=True,
    ),
    Key(
        "sasl.oauthbearer.token.endpoint.url",
        STRING,
        None,
        "Where this broker gets its own token for other brokers: a file, or the token endpoint of a provider.",
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "Where the keys that sign tokens are published.",
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3_600_000,
        "How often those keys are read again.",
        importance=LOW,
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "First pause before reading them is tried again.",
        importance=LOW,
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10_000,
        "Longest such pause.",
        importance=LOW,
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.expected.audience",
        LIST,
        [],
        "Audiences of which a token must name one.",
        importance=LOW,
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        "Issuer that a token must name.",
        importance=LOW,
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "By how much clocks may differ when times in a token are checked.",
        importance=LOW,
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.scope",
        STRING,
        None,
        "Scope that this broker asks the token endpoint for.",
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.scope.claim.name",
        STRING,
        "scope",
        "Name of the claim that holds the scope.",
        importance=LOW,
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        "Name of the claim that holds the principal.",
        importance=LOW,
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.role.claim.names",
        LIST,
        [],
        "Names of claims whose values can be members of roles, as `Claim:<name>=<value>`.",
        importance=LOW,
        static_only=True,
        ours=True,
    ),
    Key(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Class that gets tokens.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "Class that checks tokens.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.client.credentials.client.id",
        STRING,
        None,
        "Client id of this broker at the token endpoint.",
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        None,
        "Secret of the client id.",
        static_only=True,
    ),
    Key(
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        "Algorithm that signs an assertion.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.claim.aud",
        STRING,
        None,
        "Audience claim of an assertion.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        INT,
        300,
        "Seconds until an assertion expires.",
        importance=LOW,
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.claim.iss",
        STRING,
        None,
        "Issuer claim of an assertion.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.claim.jti.include",
        BOOLEAN,
        False,
        "Whether an assertion gets an id of its own.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        "Seconds before now from which an assertion is valid.",
        importance=LOW,
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.claim.sub",
        STRING,
        None,
        "Subject claim of an assertion.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.file",
        STRING,
        None,
        "File with an assertion that is ready to use.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.private.key.file",
        STRING,
        None,
        "File with the key that signs assertions.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        PASSWORD,
        None,
        "Password of that file.",
        effect=NOT_OFFERED,
    ),
    Key(
        "sasl.oauthbearer.assertion.template.file",
        STRING,
        None,
        "File with more claims for assertions.",
        effect=NOT_OFFERED,
    ),
)
