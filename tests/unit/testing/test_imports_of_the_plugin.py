"""A test run with the plugin loads Headrace as it is installed."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def test_pytest_does_not_rewrite_the_modules_of_a_broker(pytester: pytest.Pytester) -> None:
    """Rewriting takes seconds in the first run of every machine."""
    pytester.makepyfile(
        """
        import sys
        import _pytest.assertion.rewrite as rewrite

        def test_modules(headrace):
            assert headrace.bootstrap
            names = [name for name in sys.modules if name.startswith("headrace.")]
            rewritten = [
                name for name in names
                if isinstance(sys.modules[name].__spec__.loader, rewrite.AssertionRewritingHook)
            ]
            print(f"modules={len(names)} rewritten={sorted(rewritten)}")
        """
    )
    result = pytester.runpytest_subprocess("-q", "-s", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.outlines if "modules=" in line]
    # The plugin itself is loaded before it can say anything.
    assert line.endswith("rewritten=['headrace.testing', 'headrace.testing.plugin']"), line
    assert int(line.split("modules=")[1].split()[0]) > 300
