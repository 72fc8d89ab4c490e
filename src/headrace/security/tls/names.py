"""Names in certificates: RFC 2253 text as Java prints it, and `ssl.principal.mapping.rules`.

    RULE:^CN=(.*?),OU=.*$/$1/L,DEFAULT

Rules are tried in order; the first whose pattern matches the whole name decides. L and U change its case, DEFAULT takes
the name as it is. If no rule matches, the connection is closed. An empty list matches no name. As in Java, an attribute
that is not one of nine known ones is written as its number with the value in hexadecimal digits, a `$3` without a third
group is text, and a pattern that matches the empty end replaces twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from headrace.config import ConfigError
from headrace.kernel.dataclass import dataclass
from headrace.security.principal import user_principal

_KEYWORDS: Final = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
_SPECIAL: Final = frozenset(',=+<>#;"\\')
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,\s*|\Z)"
)
_REFERENCE: Final = re.compile(r"\\(?P<escaped>.)|\$(?P<group>\d)", re.DOTALL)
KEY: Final = "ssl.principal.mapping.rules"


class NoRule(Exception):
    """No rule matches the name of a certificate."""


def rfc2253(name: x509.Name) -> str:
    """`CN=erin,O=Other`: the last part first, without blanks, as Java's X500Principal prints it."""
    return ",".join("+".join(_attribute(one) for one in part) for part in reversed(list(name.rdns)))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid)
    value = attribute.value
    if keyword is None or isinstance(value, bytes):
        return f"{keyword or attribute.oid.dotted_string}=#{_der(attribute).hex()}"
    text = "".join(_escape(char) for char in value)
    if text.endswith(" "):
        text = f"{text[:-1]}\\ "
    if text.startswith(" "):
        text = f"\\{text}"
    return f"{keyword}={text}"


def _escape(char: str) -> str:
    if char in _SPECIAL:
        return f"\\{char}"
    return "\\00" if char == "\0" else char


def _der(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """The value as a certificate encodes it: a tag, a length, the bytes."""
    value = attribute.value
    content = value if isinstance(value, bytes) else value.encode()
    length = len(content)
    size = bytes([length]) if length < 128 else bytes([0x80 + (length.bit_length() + 7) // 8]) + _minimal(length)
    return bytes([attribute._type.value]) + size + content


def _minimal(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None takes every name as it is."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(self._replaced, name)
        return {"L": result.lower, "U": result.upper}.get(self.case, lambda: result)()

    def _replaced(self, found: re.Match[str]) -> str:
        def reference(part: re.Match[str]) -> str:
            if part["escaped"] is not None:
                return part["escaped"]
            group = int(part["group"])
            return (found[group] or "") if group <= found.re.groups else part[0]

        return _REFERENCE.sub(reference, self.replacement)


def principal_mapping(rules: str, *, key: str = KEY) -> Callable[[str], str]:
    """Returns the function from a distinguished name to a principal (`User:erin`); it raises `NoRule`. `ConfigError`
    for bad rules."""
    parsed = _parse(rules, key)

    def principal(name: str) -> str:
        for rule in parsed:
            user = rule.apply(name)
            if user is not None:
                return user_principal(user)
        raise NoRule(f"no rule of {key} takes the name")

    return principal


def _parse(rules: str, key: str) -> list[_Rule]:
    found: list[_Rule] = []
    at = 0
    text = rules.strip()
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise ConfigError(key, rules, f"must be RULE:pattern/replacement/[LU] or DEFAULT: {text[at : at + 40]!r}")
        if match["default"]:
            found.append(_Rule(None))
        else:
            try:
                pattern = re.compile(match["pattern"].replace("\\/", "/"))
            except re.error as error:
                raise ConfigError(key, rules, f"the pattern {match['pattern']!r} is wrong: {error}") from None
            found.append(_Rule(pattern, match["replacement"], match["case"]))
        at = match.end()
    return found
