"""Runs every demo at its shown size, one after the other, as a user without a terminal does. Ends with 1 if one failed.

python tools/demos.py [NAME …]
"""

from __future__ import annotations

import subprocess
import sys
import time

from headrace.demos.catalogue import demos


def main(names: list[str]) -> int:
    known = ["wordcount", *demos()]
    rows = []
    for name in names or known:
        if name not in known:
            print(f"no demo {name!r}; demos: {', '.join(known)}", file=sys.stderr)
            return 2
        print(f"== {name}", flush=True)
        began = time.monotonic()
        code = subprocess.run([sys.executable, "-m", "headrace.cli", "demo", name], check=False).returncode
        rows.append((name, code, time.monotonic() - began))
    print(f"\n{'demo':<15}{'result':<10}{'seconds':>8}")
    for name, code, seconds in rows:
        print(f"{name:<15}{'equal' if code == 0 else f'exit {code}':<10}{seconds:>8.1f}")
    return max((code for _, code, _ in rows), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
