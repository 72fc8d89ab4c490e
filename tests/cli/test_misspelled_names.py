"""For a name that does not exist, commands suggest the nearest existing one."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run

CALLS = {
    "topisc ls": (2, "No such command 'topisc'. Did you mean 'topics'?"),
    "topics creat x": (2, "No such command 'creat'. Did you mean 'create'?"),
    "pipeline dql ls": (2, "No such command 'dql'. Did you mean 'dlq'?"),
    "console-producer": (2, "No such command 'console-producer'. Did you mean 'kafka console-producer'?"),
    "kafka topcs": (2, "there is no tool 'topcs'. Did you mean 'topics'?"),
    "start --dat x": (2, "--dat: no such option. Did you mean '--data'?"),
    "configs set topic/{t} retention.m=5": (1, "retention.m: unknown topic config name; did you mean retention.ms?"),
    "topics create x -c clenup.policy=delete": (1, "unknown topic config name; did you mean cleanup.policy?"),
    "configs get topic/{t} retention.m": (1, "has no key 'retention.m'. Did you mean 'retention.ms'?"),
    "quotas set client-id/x producer_byte_rat=5": (1, "Did you mean 'producer_byte_rate'?"),
}


@pytest.mark.parametrize("line", CALLS)
def test_nearest_name_is_suggested(line: str, headrace: Run, topic: str) -> None:
    code, words = CALLS[line]
    ran = headrace(*line.format(t=topic).split())
    assert (ran.code, words in ran.err) == (code, True), ran


def test_name_without_a_similar_one_gets_no_suggestion(headrace: Run) -> None:
    assert "Did you mean" not in headrace("zzzzzz").err


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_is_also_an_option(option: str, headrace: Run) -> None:
    assert headrace(option).out == headrace("version").out != ""
