"""Names in certificates as Java prints them, and rules that make principals of them."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from headrace.config import ConfigError
from headrace.security.tls.names import NoRule, principal_mapping, rfc2253

CN, ORG, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME
EMAIL = NameOID.EMAIL_ADDRESS


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


# What java.security's X500Principal.getName() prints for the same names (RFC 2253).
@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (name((ORG, "Other"), (CN, "erin")), "CN=erin,O=Other"),
        (name((CN, "a, b")), "CN=a\\, b"),
        (name((CN, " a ")), "CN=\\ a\\ "),
        (name((CN, "#a")), "CN=\\#a"),
        (name((CN, 'x=1+2;<"\\>')), 'CN=x\\=1\\+2\\;\\<\\"\\\\\\>'),
        (name((CN, "a\0b")), "CN=a\\00b"),
        (name((CN, "a\nb")), "CN=a\nb"),
        (name((CN, "Zoë")), "CN=Zoë"),
        (name((CN, "erin"), (EMAIL, "e@x.org")), "1.2.840.113549.1.9.1=#16076540782e6f7267,CN=erin"),
        (name((CN, "x"), (EMAIL, "e" * 200)), f"1.2.840.113549.1.9.1=#1681c8{'65' * 200},CN=x"),
    ],
)
def test_names_are_printed_as_java_prints_them(given: x509.Name, printed: str) -> None:
    assert rfc2253(given) == printed


def test_a_part_with_two_attributes_is_joined_by_plus() -> None:
    both = x509.RelativeDistinguishedName([x509.NameAttribute(CN, "a"), x509.NameAttribute(OU, "b")])
    assert rfc2253(x509.Name([both])) in ("CN=a+OU=b", "OU=b+CN=a")


# Rows of Kafka's own documentation and of its SslPrincipalMapperTest.
@pytest.mark.parametrize(
    ("rules", "given", "principal"),
    [
        ("DEFAULT", "CN=kafka,OU=org", "User:CN=kafka,OU=org"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=duke,OU=ServiceUsers,O=x", "User:duke"),
        ("RULE:^CN=(.*?), *OU=(.*?), *O=(.*?).*$/$1@$2/L,DEFAULT", "CN=Duke,OU=JavaSoft,O=Sun", "User:duke@javasoft"),
        ("RULE:^cn=(.*?),ou=(.*?),dc=(.*?)$/$1@$2/U", "cn=duke,ou=java,dc=sun", "User:DUKE@JAVA"),
        ("RULE:^CN=(.*?),.*$/$1@$2/", "CN=duke,OU=x", "User:duke@$2"),
        ("RULE:CN=(.*)/a\\/b$1/", "CN=duke", "User:a/bduke"),
        ("RULE:^CN=(.*?)$/$1/L, RULE:^OU=(.*?)$/$1/U ,DEFAULT", "OU=x", "User:X"),
        ("RULE:.*/x/", "CN=a", "User:xx"),
        ("RULE:CN=(.*)/\\$1/", "CN=a", "User:$1"),
        ("RULE:CN=a\\,b(.*)/$1/", "CN=a,b7", "User:7"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(rules: str, given: str, principal: str) -> None:
    assert principal_mapping(rules)(given) == principal


def test_a_name_without_a_matching_rule_is_refused() -> None:
    with pytest.raises(NoRule, match=r"no rule of ssl\.principal\.mapping\.rules takes the name"):
        principal_mapping("RULE:^CN=(.*?),OU=x$/$1/")("CN=erin")
    for rules in ("RULE:^CN=/x/", ""):
        with pytest.raises(NoRule):
            principal_mapping(rules)("CN=erin")


@pytest.mark.parametrize(
    "rules",
    ["default", "RULE:", "RULE:a/b", "RULE:^(/x/", "DEFAULT,DEFAULTS", "RULE:a/b/X", "RULE:a/b/LU", "x,DEFAULT"],
)
def test_a_wrong_rule_stops_the_start(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        principal_mapping(rules)
