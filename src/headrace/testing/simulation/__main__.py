"""`python -m headrace.testing.simulation SEED [COUNT]`: runs seeds. Prints the trace if it runs only one."""

from __future__ import annotations

import sys

from headrace.testing.simulation.modes import Modes
from headrace.testing.simulation.scenario import run_seed


def main() -> int:
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failed = acknowledged = 0
    for seed in range(first, first + count):
        trace: list[str] = []
        try:
            acknowledged += run_seed(seed, trace=trace).acknowledged
        except BaseException as error:  # boundary of a seed: the other seeds still run
            failed += 1
            trace.append(f"seed {seed}: {type(error).__name__}: {error}")
            if count > 1:
                print(trace[-1], flush=True)
        if count == 1:
            print(Modes.drawn(seed), *trace, sep="\n")
    print(f"{count} seeds, {failed} failed, {acknowledged} records acknowledged")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
