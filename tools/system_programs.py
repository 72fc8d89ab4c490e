"""Installs the system programs that tests need (tests/system-programs.txt), or says how to install the missing ones.

    python tools/system_programs.py             lists the missing programs, installs nothing, exits with 0
    python tools/system_programs.py --install   installs the missing programs if it can (root and apt-get), exits with 0

Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "tests" / "system-programs.txt"
# Debian does not put server programs into the PATH of ordinary users.
_ALSO_IN = ("/usr/sbin", "/sbin", "/usr/local/sbin")


@dataclass(frozen=True)
class Program:
    names: tuple[str, ...]
    package: str
    why: str

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def path(self) -> str | None:
        places = os.pathsep.join([os.environ.get("PATH", os.defpath), *_ALSO_IN, *_postgres_places()])
        return next((found for name in self.names if (found := shutil.which(name, path=places))), None)


def _postgres_places() -> list[str]:
    return [str(place) for place in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]


def programs() -> dict[str, Program]:
    found = {}
    for line in LIST.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            names, package, why = (part.strip() for part in line.split("|"))
            program = Program(tuple(names.split(",")), package, why)
            found[program.name] = program
    return found


def missing() -> list[Program]:
    return [program for program in programs().values() if program.path is None]


def install(wanted: list[Program]) -> str | None:
    """Installs the packages. Returns None, or one sentence with the reason of the failure."""
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("apt-get") is None:
        return "this system has no apt-get"
    packages = sorted({program.package for program in wanted})
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    quiet = {"env": environment, "capture_output": True, "text": True, "check": False}
    subprocess.run(["apt-get", "update", "-qq"], **quiet)  # type: ignore[call-overload]
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
    if subprocess.run([*command, *packages], **quiet).returncode == 0:  # type: ignore[call-overload]
        return None
    # One unavailable package must not prevent the installation of the others.
    failed = [name for name in packages if subprocess.run([*command, name], **quiet).returncode != 0]  # type: ignore[call-overload]
    return f"apt-get could not install {', '.join(failed)}" if failed else None


def main(arguments: list[str]) -> int:
    wanted = missing()
    if not wanted:
        return 0
    reason = "run with --install to install them"
    if "--install" in arguments:
        print(f"installing {', '.join(sorted({program.package for program in wanted}))} for the tests that need them")
        reason = install(wanted) or ""
        wanted = missing()
    if wanted:
        print(f"missing programs ({reason}); tests that need them will be skipped:")
        for program in wanted:
            print(f"  {program.name}: install the Debian package {program.package} ({program.why})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
