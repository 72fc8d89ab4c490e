"""The text of a schema for readers: one field or element a line."""

from __future__ import annotations

import json
from xml.dom import minidom
from xml.parsers.expat import ExpatError


def indented(text: str) -> str:
    """JSON and XML indented; other texts as they are."""
    try:
        if text.lstrip().startswith("<"):
            # A text of the registry has no document type, so it cannot expand.
            root = minidom.parseString(text).documentElement
            return text if root is None else root.toprettyxml(indent="  ").rstrip("\n")
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError, ExpatError):
        return text
