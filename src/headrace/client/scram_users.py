"""SCRAM credentials as requests and command lines name them. Passwords are hashed here: no broker sees one.

SCRAM-SHA-256=[name=admin,password=…]                      kafka-storage format --add-scram
SCRAM-SHA-256=[iterations=8192,password=…]                 kafka-configs --add-config
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.security.sasl.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramMechanism,
    new_salt,
    salted_password,
)
from headrace.wire.entities import Body, Entity

MECHANISMS: Final = tuple(SCRAM_MECHANISMS)
_DEFAULT_ITERATIONS: Final = MIN_ITERATIONS
_ARGUMENT: Final = re.compile(r"([^=]+)=\[(.*)\]", re.DOTALL)


class BadUser(ValueError):
    """A user that cannot be added. The message never repeats a password."""


@dataclass(frozen=True)
class ScramUser:
    name: str
    mechanism: str
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:  # a salted password allows a login
        return f"ScramUser({self.name!r}, {self.mechanism})"

    @property
    def number(self) -> int:
        """Number of the mechanism in requests."""
        return int(SCRAM_MECHANISMS[self.mechanism])

    def upsertion(self) -> Body:
        """As a row of AlterUserScramCredentials."""
        return {
            "name": self.name,
            "mechanism": self.number,
            "iterations": self.iterations,
            "salt": self.salt,
            "salted_password": self.salted_password,
        }


def scram_user(name: str, mechanism: str, password: str, iterations: int = _DEFAULT_ITERATIONS) -> ScramUser:
    """Raises BadUser."""
    known = _checked(name, mechanism, iterations)
    if not password:
        raise BadUser(f"the password of {name!r} must not be empty")
    salt = new_salt()
    return ScramUser(name, mechanism, iterations, salt, salted_password(known, password, salt, iterations))


def user_from_argument(text: str) -> ScramUser:
    """`SCRAM-SHA-256=[name=…,password=…]`, with iterations, salt and saltedpassword as in Kafka. Raises BadUser."""
    match = _ARGUMENT.fullmatch(text.strip())
    if match is None:
        raise BadUser("a SCRAM credential has the form 'SCRAM-SHA-256=[name=NAME,password=PASSWORD]'")
    mechanism, options = match[1].strip(), options_of(match[2])
    name = options.pop("name", "")
    if not name:
        raise BadUser("You must supply 'name' to add-scram")
    return user_from_options(name, mechanism, options)


def options_of(text: str) -> dict[str, str]:
    """`a=1,b="x"` as a mapping. Raises BadUser without repeating values."""
    found: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise BadUser(f"option {len(found) + 1} of the SCRAM credential is not in the form name=value")
        value = value.strip()
        found[key.strip()] = value[1:-1] if len(value) >= 2 and value[0] == value[-1] == '"' else value
    return found


def user_from_options(name: str, mechanism: str, options: Mapping[str, str]) -> ScramUser:
    """Raises BadUser."""
    if unknown := sorted(set(options) - {"password", "saltedpassword", "salt", "iterations"}):
        raise BadUser(f"{unknown[0]!r} is no option of a SCRAM credential: password, iterations, salt, saltedpassword")
    if ("password" in options) == ("saltedpassword" in options):
        raise BadUser("You must supply one of 'password' or 'saltedpassword', and not both")
    try:
        iterations = int(options.get("iterations", _DEFAULT_ITERATIONS))
        salt = base64.b64decode(options["salt"], validate=True) if "salt" in options else new_salt()
        salted = base64.b64decode(options.get("saltedpassword", ""), validate=True)
    except (binascii.Error, ValueError):
        raise BadUser("iterations must be a number, salt and saltedpassword must be base64") from None
    known = _checked(name, mechanism, iterations)
    if "password" not in options:
        if "salt" not in options:
            raise BadUser("You must supply 'salt' with 'saltedpassword'")
        return ScramUser(name, mechanism, iterations, salt, salted)
    if not options["password"]:
        raise BadUser(f"the password of {name!r} must not be empty")
    return ScramUser(name, mechanism, iterations, salt, salted_password(known, options["password"], salt, iterations))


def _checked(name: str, mechanism: str, iterations: int) -> ScramMechanism:
    if mechanism not in SCRAM_MECHANISMS:
        raise BadUser(f"{mechanism!r} is no SCRAM mechanism: {' or '.join(MECHANISMS)}")
    if not name or not name.isprintable():
        raise BadUser(f"{name!r}: a user name must not be empty and has no line breaks or control characters")
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise BadUser(f"iterations={iterations}: must be between {MIN_ITERATIONS} and {MAX_ITERATIONS}")
    return SCRAM_MECHANISMS[mechanism]


def described(answer: Entity) -> list[tuple[str, list[tuple[str, int]]]]:
    """(user, [(mechanism, iterations)…]) of an answer to DescribeUserScramCredentials, users without error only."""
    titles = {int(number): title for title, number in SCRAM_MECHANISMS.items()}
    found: list[tuple[str, list[tuple[str, int]]]] = []
    for one in answer.results:
        if not one.error_code:
            infos = [
                (titles.get(int(info.mechanism), "unknown"), int(info.iterations)) for info in one.credential_infos
            ]
            found.append((str(one.user), infos))
    return found
