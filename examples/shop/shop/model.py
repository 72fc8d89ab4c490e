"""The types of the topics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    id: str
    customer: str
    cents: int


@dataclass(frozen=True)
class Payment:
    order: str
    cents: int
    is_accepted: bool


@dataclass(frozen=True)
class Notification:
    customer: str
    text: str
