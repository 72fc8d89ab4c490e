"""The effect of a key: Headrace honours it, accepts it without effect, warns about it, or refuses it.

A value that has no effect must not mislead the person who set it. So every declaration says what happens when a value
other than the default is set:

    HONOURED          the broker uses the value
    harmless(why)     accepted silently: no value changes anything that a user could rely on
    warned(why)       accepted with a warning that names the key and what decides instead
    refused(why)      stops the start (or the change); always for settings that promise security, limits or durability

The default is always accepted. To honour a key that was refused, remove the `effect` from its declaration.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from headrace.kernel.dataclass import dataclass


class Outcome(Enum):
    HONOURED = "honoured"
    HARMLESS = "no effect"
    WARNED = "warning"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Effect:
    outcome: Outcome
    why: str = ""
    """A clause without a full stop. Empty only for keys that are honoured."""


HONOURED: Final = Effect(Outcome.HONOURED)


def harmless(why: str) -> Effect:
    return Effect(Outcome.HARMLESS, why)


def warned(why: str) -> Effect:
    return Effect(Outcome.WARNED, why)


def refused(why: str) -> Effect:
    return Effect(Outcome.REFUSED, why)
