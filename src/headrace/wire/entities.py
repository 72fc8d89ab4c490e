"""Types of messages whose API is known only when the program runs.

A handler knows its API and uses generated types (`messages`). Code that transports messages of any API, such as
connections and gateways, uses the types here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

# kio has a class for each message and version. The class of an entity depends on the API and version at run time, which
# a type checker cannot follow.
Entity: TypeAlias = Any
EntityClass: TypeAlias = type[Any]
SchemaField: TypeAlias = dataclasses.Field[Any]

# A message before it is written: names of fields and their values.
Body: TypeAlias = Mapping[str, object]
