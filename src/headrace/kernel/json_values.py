"""Types of JSON that a program reads: `json.loads` cannot tell what a file or a node holds."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]
