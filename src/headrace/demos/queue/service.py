"""The services of the work queue: `worker NAME` does jobs, `audit` sees every job."""

from __future__ import annotations

import sys
from collections.abc import Callable

from headrace import connect


def worker(bootstrap: str, name: str) -> None:
    """A member of the share group `workers`: takes single jobs, not partitions."""
    cluster = connect(bootstrap)
    outcomes = cluster.topic("job-outcomes", dict)
    for delivery in cluster.topic("jobs", dict).queue("workers"):
        job = delivery.value or {}
        if job["kind"] == "flaky" and delivery.attempt == 1:
            delivery.release()  # the printer is busy: another worker tries again
            continue
        outcome = "rejected" if job["kind"] == "broken" else "done"
        outcomes.send({"outcome": outcome, "worker": name, "attempt": delivery.attempt}, key=job["job"])
        # First the result, then the acknowledgement: if a worker dies in between, the job is done twice, not lost.
        outcomes.flush()
        if outcome == "rejected":
            delivery.reject()
        else:
            delivery.ack()


def audit(bootstrap: str) -> None:
    """A consumer group of its own beside the queue: publish-subscribe of the same topic."""
    cluster = connect(bootstrap)
    book = cluster.topic("job-audit", dict)
    pages = 0
    for record in cluster.topic("jobs", dict).read(group="audit"):
        job = record.value or {}
        pages += job["pages"]
        book.send({"job": job["job"], "pages_so_far": pages}, key=job["job"])


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"worker": worker, "audit": audit}
    roles[sys.argv[1]](*sys.argv[2:])
