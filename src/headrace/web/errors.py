"""Problems of a request as JSON answers: `{"error_code": 40401, "message": "…"}`, the form of Confluent's services.

`problem_of` maps every Kafka error to an HTTP status and to Confluent's code. A fault of a bug is logged and answered
with 500.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headrace.client.errors import NoAnswer, Unreachable, Unsupported
from headrace.kernel.errors import ErrorCode, Fault

_log = logging.getLogger(__name__)

BAD_REQUEST: Final = (400, 40002)
UNAUTHENTICATED: Final = (401, 40101)
FORBIDDEN: Final = (403, 40301)
UNKNOWN: Final = (404, 40403)
CONFLICT: Final = (409, 40902)
TOO_MANY: Final = (429, 42901)
KAFKA_FAULT: Final = (500, 50002)
RETRIABLE: Final = (500, 50003)
BROKER_GONE: Final = (503, 50302)


class Problem(Exception):
    """An answer other than success."""

    def __init__(self, status: int, code: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})

    def as_json(self) -> dict[str, object]:
        return {"error_code": self.code, "message": self.message}


def bad_request(message: str) -> Problem:
    return Problem(400, 400, message)


def unprocessable(message: str) -> Problem:
    return Problem(422, 422, message)


def unauthenticated(message: str) -> Problem:
    return Problem(*UNAUTHENTICATED, message, headers={"WWW-Authenticate": 'Basic realm="headrace", Bearer'})


_STATUS: Final[Mapping[ErrorCode, tuple[int, int]]] = {
    **dict.fromkeys(
        (ErrorCode.sasl_authentication_failed, ErrorCode.unsupported_sasl_mechanism, ErrorCode.illegal_sasl_state),
        UNAUTHENTICATED,
    ),
    **dict.fromkeys(
        (
            ErrorCode.topic_authorization_failed,
            ErrorCode.group_authorization_failed,
            ErrorCode.cluster_authorization_failed,
            ErrorCode.transactional_id_authorization_failed,
            ErrorCode.delegation_token_authorization_failed,
        ),
        FORBIDDEN,
    ),
    **dict.fromkeys(
        (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id, ErrorCode.group_id_not_found), UNKNOWN
    ),
    **dict.fromkeys(
        (
            ErrorCode.invalid_topic_exception,
            ErrorCode.invalid_partitions,
            ErrorCode.invalid_replication_factor,
            ErrorCode.invalid_replica_assignment,
            ErrorCode.invalid_config,
            ErrorCode.invalid_request,
            ErrorCode.invalid_group_id,
            ErrorCode.topic_already_exists,
            ErrorCode.policy_violation,
            ErrorCode.message_too_large,
            ErrorCode.record_list_too_large,
            ErrorCode.invalid_record,
            ErrorCode.invalid_timestamp,
            ErrorCode.invalid_required_acks,
            ErrorCode.offset_out_of_range,
            ErrorCode.offset_metadata_too_large,
            ErrorCode.invalid_commit_offset_size,
            ErrorCode.non_empty_group,
            ErrorCode.security_disabled,
            ErrorCode.reassignment_in_progress,
            ErrorCode.topic_deletion_disabled,
            ErrorCode.inconsistent_group_protocol,
            ErrorCode.invalid_principal_type,
            ErrorCode.invalid_regular_expression,
        ),
        BAD_REQUEST,
    ),
    **dict.fromkeys(
        (ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.stale_member_epoch), CONFLICT
    ),
    ErrorCode.throttling_quota_exceeded: TOO_MANY,
    ErrorCode.broker_not_available: BROKER_GONE,
    **dict.fromkeys(
        (
            ErrorCode.leader_not_available,
            ErrorCode.not_leader_or_follower,
            ErrorCode.request_timed_out,
            ErrorCode.network_exception,
            ErrorCode.coordinator_load_in_progress,
            ErrorCode.coordinator_not_available,
            ErrorCode.not_coordinator,
            ErrorCode.not_controller,
            ErrorCode.not_enough_replicas,
            ErrorCode.not_enough_replicas_after_append,
            ErrorCode.kafka_storage_error,
            ErrorCode.rebalance_in_progress,
            ErrorCode.concurrent_transactions,
            ErrorCode.fenced_leader_epoch,
            ErrorCode.unknown_leader_epoch,
            ErrorCode.replica_not_available,
            ErrorCode.preferred_leader_not_available,
            ErrorCode.fetch_session_id_not_found,
            ErrorCode.corrupt_message,
        ),
        RETRIABLE,
    ),
}


def status_of(code: ErrorCode) -> tuple[int, int]:
    """(HTTP status, Confluent's error code) of a Kafka error."""
    return _STATUS.get(code, KAFKA_FAULT)


def problem_of(fault: Fault) -> Problem:
    if isinstance(fault, Unreachable | NoAnswer):
        return Problem(*BROKER_GONE, fault.message)
    if isinstance(fault, Unsupported):
        return Problem(501, 501, fault.message)
    message = fault.message or fault.code.name
    status, code = status_of(fault.code)
    if status == 401:
        # Brokers do not say whether the user exists, and neither does the answer.
        return unauthenticated("the brokers refused the user name, password or token")
    return Problem(status, code, message)


def problem_answer(problem: Problem) -> Response:
    return Response(
        json.dumps(problem.as_json(), separators=(",", ":"), ensure_ascii=False).encode(),
        problem.status,
        headers=problem.headers,
        media_type="application/json",
    )


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_answer(error)


async def _fault(_: Request, error: Exception) -> Response:
    assert isinstance(error, Fault)
    return problem_answer(problem_of(error))


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = Problem(error.status_code, error.status_code, f"HTTP {error.status_code} {error.detail}")
    problem.headers.update(error.headers or {})
    return problem_answer(problem)


async def _bug(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_answer(Problem(500, 500, "Internal Server Error: see the log of the service"))


HANDLERS: Final = {Problem: _problem, Fault: _fault, HTTPException: _http, Exception: _bug}
"""For Starlette's `exception_handlers`."""
