"""A foreign web page cannot use the registry of a developer's machine through the browser."""

from __future__ import annotations

from headrace.testing import broker
from tests.support.registry import RunningRegistry

SCHEMA = {"schema": '"string"'}


def test_requests_of_foreign_pages_are_rejected() -> None:
    with broker() as running:
        registry = RunningRegistry(running.bootstrap)
        try:
            path = "/subjects/orders-value/versions"
            status, answer = registry.ask(
                "POST", path, SCHEMA, Origin="https://evil.example", Content_Type="text/plain"
            )
            assert (status, "another site" in answer["message"]) == (403, True)
            # DNS rebinding: the page's own name leads to this machine, so its origin is that of the request.
            rebound = {"Host": "evil.example", "Origin": "http://evil.example"}
            status, answer = registry.ask("POST", path, SCHEMA, **rebound)
            assert (status, "listens on loopback" in answer["message"]) == (421, True)
            assert registry.ask("GET", "/subjects") == (200, [])
            assert registry.ask("POST", path, SCHEMA)[0] == 200
        finally:
            registry.stop()
