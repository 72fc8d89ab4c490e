from __future__ import annotations

import pytest

from headrace.client.errors import NoAnswer, Unreachable
from headrace.kernel.errors import ErrorCode, Refused
from headrace.web.errors import problem_of


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.none])
def test_every_kafka_error_has_a_status_of_its_kind(code: ErrorCode) -> None:
    problem = problem_of(Refused(code, "reason"))
    assert problem.status == problem.code // 100
    if code.name.endswith("authorization_failed"):
        assert (problem.status, problem.code) == (403, 40301)
    elif code.name.startswith("unknown_topic"):
        assert (problem.status, problem.code) == (404, 40403)
    elif code.name.startswith("invalid_") and code.name not in ("invalid_fetch_size", "invalid_fetch_session_epoch"):
        assert problem.status in (400, 500)
    if problem.status != 401:
        assert problem.message == "reason"


def test_missing_brokers_are_503() -> None:
    assert problem_of(Unreachable("nothing listens")).status == 503
    assert problem_of(NoAnswer("late")).code == 50302
