"""Types of messages whose API is known only when the program runs.

A handler knows its API and has generated types (`messages`). Code that carries messages of any API, as connections and
gateways do, uses these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

# kio has a class for each message and version. Which one an entity has depends on the API and version that were asked
# for, which a type checker cannot follow.
Entity: TypeAlias = Any
EntityClass: TypeAlias = type[Any]
SchemaField: TypeAlias = dataclasses.Field[Any]

# A message before it is written: names of fields and their values.
Body: TypeAlias = Mapping[str, object]
