"""PRODUCER_FENCED came late to the protocol: older versions of a request are told INVALID_PRODUCER_EPOCH instead."""

from __future__ import annotations

from headrace.kernel.errors import ErrorCode


def as_old_clients_know_it(error: ErrorCode, version: int, fenced_from_version: int) -> int:
    if error is ErrorCode.producer_fenced and version < fenced_from_version:
        return int(ErrorCode.invalid_producer_epoch)
    return int(error)
