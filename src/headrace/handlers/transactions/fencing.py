"""Error code of a fenced producer: PRODUCER_FENCED, or INVALID_PRODUCER_EPOCH in older versions of a request."""

from __future__ import annotations

from headrace.kernel.errors import ErrorCode


def as_old_clients_know_it(error: ErrorCode, version: int, fenced_from_version: int) -> int:
    if error is ErrorCode.producer_fenced and version < fenced_from_version:
        return int(ErrorCode.invalid_producer_epoch)
    return int(error)
