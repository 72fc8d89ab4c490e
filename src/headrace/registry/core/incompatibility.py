"""One reason why two schemas are not compatible: the rule, the place, and a change that would fix it."""

from __future__ import annotations

from headrace.kernel.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Incompatibility:
    kind: str  # Confluent's or Apache Avro's name of the rule
    path: str
    reason: str
    way_out: str

    def __str__(self) -> str:
        return f"{{errorType:'{self.kind}', description:'{self.reason}', path:'{self.path}', fix:'{self.way_out}'}}"
