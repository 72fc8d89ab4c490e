"""The home of Spark for a local session, without the zipped copy of PySpark.

Spark puts `python/lib/pyspark.zip` of its home before the installed packages of every Python process that it starts.
Python cannot keep compiled files of a zip, so each of these processes compiles PySpark again: 1.0 s of CPU instead of
0.35 s, for every source of every flow. Spark waits ten seconds for such a process, which is too short on a busy
machine. A home with links to the programs and jars alone has no zip, and the processes import the installed package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.pipelines.spark.java import cache_dir

_LINKS: Final = ("bin", "jars")


@contextmanager
def unzipped_home() -> Iterator[None]:
    """SPARK_HOME within the block, for the JVM that starts there. A SPARK_HOME of the user stays as it is."""
    home = None if "SPARK_HOME" in os.environ else _linked_home()
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _linked_home() -> Path | None:
    """None if PySpark is not a package with its own Spark, or links are not possible: the zip then is used as ever."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    if os.name != "posix" or not all((installed / name).is_dir() for name in _LINKS):
        return None
    # One home for each installation: another environment of this user has other jars.
    home = cache_dir() / f"spark-home-{hashlib.sha256(os.fsencode(installed)).hexdigest()[:12]}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in _LINKS:
            # Another process may make the same link at this moment.
            with contextlib.suppress(FileExistsError):
                (home / name).symlink_to(installed / name)
    except OSError:
        return None
    return home if all((home / name).is_dir() for name in _LINKS) else None
