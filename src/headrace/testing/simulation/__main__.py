"""`python -m headrace.testing.simulation SEED [COUNT]`: run seeds, and show the trace of a single one."""

from __future__ import annotations

import sys

from headrace.testing.simulation.scenario import run_seed


def main() -> int:
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failed = acknowledged = 0
    for seed in range(first, first + count):
        try:
            outcome = run_seed(seed)
        except BaseException as error:
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
            continue
        acknowledged += outcome.acknowledged
        if count == 1:
            print("\n".join(outcome.trace))
    print(f"{count} seeds, {failed} failed, {acknowledged} records acknowledged")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
