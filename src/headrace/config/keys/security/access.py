"""Broker keys of access control, delegation tokens and stored secrets. Honour one by removing its `effect`."""

from __future__ import annotations

from headrace.config.effect import refused
from headrace.config.key import Importance, Key, Rule, Type, Update

BOOLEAN = Type.BOOLEAN
CLASS = Type.CLASS
INT = Type.INT
LONG = Type.LONG
PASSWORD = Type.PASSWORD
STRING = Type.STRING
LOW = Importance.LOW
PER_BROKER = Update.PER_BROKER

NOT_OFFERED = refused("the broker loads no classes of your own")
NO_SECRETS = refused("the broker stores no passwords that change while it runs")

# Class names in configurations for Kafka. Headrace does not load these classes.
AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
AUTHORIZER = Rule(f"must be empty or one of {', '.join(AUTHORIZERS)}", lambda value: value in ("", *AUTHORIZERS))
PRINCIPALS = Rule(
    "must be principals such as User:admin, separated by semicolons",
    lambda value: all(not part.strip() or ":" in part for part in value.split(";")),
)

KEYS = (
    Key(
        "authorizer.class.name",
        STRING,
        "",
        "Turns access control by ACLs on. Both names of Kafka's authorizer are accepted and mean the same. Empty: "
        "every client may do everything.",
        rule=AUTHORIZER,
        importance=LOW,
    ),
    Key(
        "super.users",
        STRING,
        None,
        "Principals that may do everything, separated by semicolons, such as `User:admin;User:CN=broker`.",
        rule=PRINCIPALS,
        ours=True,
    ),
    Key(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        "Whether a resource that no ACL covers is open to every client.",
        ours=True,
    ),
    Key(
        "audit.topic",
        STRING,
        "",
        "Topic to which the broker writes denied requests as JSON, such as `__audit`. Empty: only the log has them.",
        ours=True,
    ),
    Key(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "Class that makes a principal of a connection.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "Secret that signs delegation tokens.",
        static_only=True,
    ),
    Key(
        "delegation.token.master.key",
        PASSWORD,
        None,
        "Older name of `delegation.token.secret.key`.",
        static_only=True,
        ours=True,
    ),
    Key(
        "delegation.token.max.lifetime.ms",
        LONG,
        604_800_000,
        "Time after which a token can no longer be renewed.",
        static_only=True,
    ),
    Key(
        "delegation.token.expiry.time.ms",
        LONG,
        86_400_000,
        "Time after which a token must be renewed.",
        static_only=True,
    ),
    Key(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3_600_000,
        "How often the broker removes tokens that have expired.",
        importance=LOW,
        static_only=True,
    ),
    Key(
        "password.encoder.secret",
        PASSWORD,
        None,
        "Secret that encrypts dynamic passwords.",
        effect=NO_SECRETS,
        ours=True,
    ),
    Key(
        "password.encoder.old.secret",
        PASSWORD,
        None,
        "The secret before that one.",
        effect=NO_SECRETS,
        ours=True,
    ),
    Key(
        "password.encoder.keyfactory.algorithm",
        STRING,
        None,
        "How a key is derived from the secret.",
        importance=LOW,
        effect=NO_SECRETS,
        ours=True,
    ),
    Key(
        "password.encoder.cipher.algorithm",
        STRING,
        "AES/CBC/PKCS5Padding",
        "Cipher that encrypts dynamic passwords.",
        importance=LOW,
        effect=NO_SECRETS,
        ours=True,
    ),
    Key(
        "password.encoder.key.length",
        INT,
        128,
        "Length of its key in bits.",
        importance=LOW,
        effect=NO_SECRETS,
        ours=True,
    ),
    Key(
        "password.encoder.iterations",
        INT,
        4096,
        "Iterations to derive the key.",
        importance=LOW,
        effect=NO_SECRETS,
        ours=True,
    ),
)
