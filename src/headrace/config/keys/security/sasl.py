"""Broker keys of SASL: mechanisms, logins, Kerberos. Honour one by removing its `effect`.

Each also works for one listener, as `listener.name.<name>.<key>`, which wins. Credentials need a listener and a
mechanism: `listener.name.<name>.<mechanism>.sasl.jaas.config`.
"""

from __future__ import annotations

from headrace.config.effect import harmless, refused, warned
from headrace.config.key import Importance, Key, Type, Update
from headrace.config.rules import one_of

CLASS = Type.CLASS
DOUBLE = Type.DOUBLE
INT = Type.INT
LIST = Type.LIST
LONG = Type.LONG
PASSWORD = Type.PASSWORD
SHORT = Type.SHORT
STRING = Type.STRING
HIGH = Importance.HIGH
LOW = Importance.LOW
PER_BROKER = Update.PER_BROKER

NOT_JAVA = refused("the broker loads no Java code")
NO_KERBEROS = refused("Kerberos is not offered")
# The times of a login that does not exist change the safety of nothing. Clients alter them (librdkafka's tests do).
NO_TICKETS = warned("Kerberos is not offered, so there is no ticket to renew")
NO_RENEWAL = refused("brokers get no tokens from an identity provider")


_OAUTH = "org.apache.kafka.common.security.oauthbearer"
TOKEN_CHECKS = (
    f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
    f"{_OAUTH}.secured.OAuthBearerValidatorCallbackHandler",
    f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
)

KEYS = (
    Key(
        "sasl.enabled.mechanisms",
        LIST,
        ["GSSAPI"],
        "SASL mechanisms that clients may log in with.",
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        "SASL mechanism between brokers.",
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "sasl.mechanism.controller.protocol",
        STRING,
        "GSSAPI",
        "SASL mechanism between brokers and the KRaft controller.",
        importance=HIGH,
        effect=harmless("brokers have no KRaft controller"),
    ),
    Key(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "Login module and credentials of a listener and mechanism.",
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "sasl.server.callback.handler.class",
        CLASS,
        None,
        "Which tokens OAUTHBEARER takes, by the name of Kafka's class: signed ones, or ones without a signature for "
        "tests. The broker loads no class.",
        one_of(*TOKEN_CHECKS),
        static_only=True,
    ),
    Key(
        "sasl.client.callback.handler.class",
        CLASS,
        None,
        "Class that gives the broker's own credentials.",
        effect=NOT_JAVA,
    ),
    Key(
        "sasl.server.max.receive.size",
        INT,
        524_288,
        "Largest message that the broker reads before a client has logged in.",
    ),
    Key(
        "sasl.login.class",
        CLASS,
        None,
        "Class of the login.",
        effect=NOT_JAVA,
    ),
    Key(
        "sasl.login.callback.handler.class",
        CLASS,
        None,
        "Class that gives the credentials of the login.",
        effect=NOT_JAVA,
    ),
    Key(
        "sasl.login.connect.timeout.ms",
        INT,
        None,
        "How long connecting to an identity provider may take.",
        importance=LOW,
        effect=NO_RENEWAL,
    ),
    Key(
        "sasl.login.read.timeout.ms",
        INT,
        None,
        "How long an answer of an identity provider may take.",
        importance=LOW,
        effect=NO_RENEWAL,
    ),
    Key(
        "sasl.login.retry.backoff.ms",
        LONG,
        100,
        "First pause before a failed login to an identity provider is tried again.",
        importance=LOW,
        effect=NO_RENEWAL,
    ),
    Key(
        "sasl.login.retry.backoff.max.ms",
        LONG,
        10_000,
        "Longest such pause.",
        importance=LOW,
        effect=NO_RENEWAL,
    ),
    Key(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        "Part of a token's life after which it is renewed.",
        update=PER_BROKER,
        effect=NO_RENEWAL,
    ),
    Key(
        "sasl.login.refresh.window.jitter",
        DOUBLE,
        0.05,
        "Random part that is added to that time.",
        update=PER_BROKER,
        effect=NO_RENEWAL,
    ),
    Key(
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        60,
        "Least time between two renewals of a token.",
        update=PER_BROKER,
        effect=NO_RENEWAL,
    ),
    Key(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        "Time before a token ends at which it must have been renewed.",
        update=PER_BROKER,
        effect=NO_RENEWAL,
    ),
    Key(
        "sasl.kerberos.service.name",
        STRING,
        None,
        "Kerberos name of the brokers.",
        update=PER_BROKER,
        effect=NO_KERBEROS,
    ),
    Key(
        "sasl.kerberos.kinit.cmd",
        STRING,
        "/usr/bin/kinit",
        "Path of kinit.",
        update=PER_BROKER,
        effect=NO_KERBEROS,
    ),
    Key(
        "sasl.kerberos.principal.to.local.rules",
        LIST,
        ["DEFAULT"],
        "Rules that turn a Kerberos principal into a short name.",
        update=PER_BROKER,
        effect=NO_KERBEROS,
    ),
    Key(
        "sasl.kerberos.min.time.before.relogin",
        LONG,
        60_000,
        "Least time between two Kerberos logins.",
        update=PER_BROKER,
        effect=NO_TICKETS,
    ),
    Key(
        "sasl.kerberos.ticket.renew.window.factor",
        DOUBLE,
        0.8,
        "Part of a ticket's life after which it is renewed.",
        update=PER_BROKER,
        effect=NO_TICKETS,
    ),
    Key(
        "sasl.kerberos.ticket.renew.jitter",
        DOUBLE,
        0.05,
        "Random part that is added to that time.",
        update=PER_BROKER,
        effect=NO_TICKETS,
    ),
)
