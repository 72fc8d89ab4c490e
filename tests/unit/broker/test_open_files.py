"""A broker raises its limit of open files to the hard limit."""

from __future__ import annotations

import resource
import subprocess
import sys

_CHILD = """
import resource
from headrace.broker.foreground import allow_open_files
allow_open_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    few = ["prlimit", f"--nofile=64:{hard}"]
    done = subprocess.run([*few, sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) == hard
