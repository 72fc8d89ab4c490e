"""ssl.principal.mapping.rules of Headrace and of Apache Kafka's SslPrincipalMapper."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.config import ConfigError
from headrace.security.tls.names import NoRule, principal_mapping
from tests.reference import kafka

RULES = [
    "DEFAULT",
    "",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT",
    "RULE:^CN=(.*?), *OU=(.*?), *O=(.*?)$/$1@$2/L,DEFAULT",
    "RULE:^CN=(.*?),.*$/$1@$2/U",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:CN=(.*)/a\\/b$1/",
    "RULE:.*/x/",
    "RULE:CN=(.*)/\\$1/",
    "RULE:^CN=(.*?)$/$1/L, RULE:^OU=(.*?)$/$1/U ,DEFAULT",
    "RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT",
    "RULE:^CN=(\\w+)\\\\,.*$/$1/",
    "RULE:CN=(a|b)/$1$1/",
    "RULE:CN=(x)?.*/[$1]/",
    "default",
    "DEFAUL",
    "DEFAULT/L",
    "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
    "RULE:",
    "rule:^CN=(.*?)$/$1/",
    "RULE:.*/U",
]
NAMES = [
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=duke,OU=SME,O=mycp",
    "CN=erin,O=Other",
    "cn=joe.qa,ou=x",
    "OU=x",
    "CN=a",
    "CN=a\\,b,OU=x",
    "CN=Duke\\, Sir,OU=x,O=y",
    "",
]


def ours(rules: str, name: str) -> str:
    try:
        return "=" + principal_mapping(rules)(name).removeprefix("User:")
    except ConfigError:
        return "invalid"
    except NoRule:
        return "none"


@pytest.mark.needs("kafka")
def test_every_rule_maps_every_name_as_in_kafka() -> None:
    rows = [(rules, name) for rules in RULES for name in NAMES]
    source = Path(__file__).with_name("PrincipalMapping.java")
    done = subprocess.run(
        ["java", "-Dfile.encoding=UTF-8", "-cp", f"{kafka.fetch()}/*", str(source)],
        input="".join(f"{rules}\n{name}\n" for rules, name in rows),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    theirs = done.stdout.splitlines()
    assert len(theirs) == len(rows)
    differences = [
        f"{rules!r} of {name!r}: Kafka {expected!r}, we {ours(rules, name)!r}"
        for (rules, name), expected in zip(rows, theirs, strict=True)
        if ours(rules, name) != expected
    ]
    assert differences == []
    assert {"invalid", "none"} < set(theirs)
