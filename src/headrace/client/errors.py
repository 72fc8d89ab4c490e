"""Errors between a client and a broker, beyond the error codes in answers.

    Fault
    ├── Unreachable        no connection to that address within the time-out, or it was lost before the answer
    ├── NoAnswer           connected, but no answer within the time-out
    └── Unsupported        the broker does not serve the API, or no version of it that we speak

A caller may retry after `Unreachable` and `NoAnswer` if its request is safe to repeat.
"""

from __future__ import annotations

from headrace.kernel.errors import ErrorCode, Fault


class Unreachable(Fault):
    default_code = ErrorCode.network_exception


class NoAnswer(Fault):
    default_code = ErrorCode.request_timed_out


class Unsupported(Fault):
    default_code = ErrorCode.unsupported_version
