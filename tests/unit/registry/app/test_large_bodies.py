"""A body has a limit, so that one caller cannot take all memory of the registry."""

from __future__ import annotations

import pytest

from tests.support.registry import RunningRegistry


@pytest.mark.parametrize("path", ["/subjects/{}", "/subjects/{}/versions", "/compatibility/subjects/{}/versions"])
def test_a_body_beyond_the_limit_is_413(server: RunningRegistry, subject: str, path: str) -> None:
    body = b'{"schema": "' + b" " * (17 << 20) + b'"}'
    status, answer = server.ask("POST", path.format(subject), body)
    assert (status, answer["error_code"]) == (413, 413)


def test_the_largest_schema_fits_with_every_character_escaped(server: RunningRegistry, subject: str) -> None:
    schema = '{"type":"record","name":"A","fields":[],"doc":"' + "a" * 900_000 + '"}'
    body = '{"schema":"' + "".join(f"\\u{ord(char):04x}" for char in schema) + '"}'
    assert server.ask("POST", f"/subjects/{subject}/versions", body.encode())[0] == 200
