"""A model of dataclasses-avroschema: it generates the schema, and reads and writes its bytes.

The library reads the annotations as types, so this module has no `from __future__ import annotations`.
"""

from dataclasses import dataclass
from decimal import Decimal

from dataclasses_avroschema import AvroModel, types


@dataclass
class Purchase(AvroModel):
    id: int
    item: str
    count: int = 1
    price: types.condecimal(max_digits=8, decimal_places=2) = Decimal("0.00")  # type: ignore[valid-type]

    class Meta:
        namespace = "shop"
