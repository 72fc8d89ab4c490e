"""Loads Headrace's pytest plugin in the pytest runs of tests.

The entry point does it for users. An editable installation that is older than the entry point does not have it.
"""

from __future__ import annotations

from importlib.metadata import entry_points

PLUGIN = "headrace.testing.plugin"


def plugin_environment() -> dict[str, str]:
    """Environment variables for a pytest run."""
    installed = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
    return {} if installed else {"PYTEST_PLUGINS": PLUGIN}
