"""A row as JSON text: times in ISO form, bytes in base64, decimals as numbers."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Mapping

from headrace.pipelines.errors import PipelineError


def to_text(row: Mapping[str, object]) -> str:
    return json.dumps(row, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    raise PipelineError(f"{value!r} has no form in JSON: cast it in select")
