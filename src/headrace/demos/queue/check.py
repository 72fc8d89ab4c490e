"""Every job has one outcome, and the audit has seen every job."""

from __future__ import annotations

from collections import Counter

from headrace.demos.picture import Feed, Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "A work queue (share group) beside publish-subscribe."
OUTPUTS = {"job-outcomes": compacted(), "job-audit": kept(1)}
# A killed worker's jobs come back after this time. Kafka's smallest value is 15 s unless the broker allows less.
BROKER_SETTINGS = {
    "group.share.record.lock.duration.ms": "2000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
}


def expected(inputs: Contents) -> Result:
    jobs = list(inputs.rows("jobs"))
    result: Result = {row["job"]: "rejected" if row["kind"] == "broken" else "done" for row in jobs}
    return {**result, "audited": len(jobs), "pages": sum(row["pages"] for row in jobs)}


def found(outputs: Contents) -> Result:
    result: Result = {job: each["outcome"] for job, each in outputs.latest("job-outcomes").items()}
    audited = [row["pages_so_far"] for row in outputs.rows("job-audit")]
    _attempts.update({job: (each["worker"], each["attempt"]) for job, each in outputs.latest("job-outcomes").items()})
    return {**result, "audited": len(audited), "pages": audited[-1] if audited else 0}


# Who did which job at which attempt. It depends on chance, so it belongs to the picture and not to the result.
_attempts: dict[str, tuple[str, int]] = {}


def picture(found: Result, rows: int) -> Picture:
    outcomes = Counter(value for key, value in found.items() if key.startswith("job-"))
    workers = Counter(worker for worker, _ in _attempts.values())
    again = [f"{job}: {worker}, attempt {attempt}" for job, (worker, attempt) in _attempts.items() if attempt > 1]
    return panels(
        Figures("", {"done": outcomes["done"], "rejected": outcomes["rejected"], "audited": found["audited"]}),
        Table("work queue", ("worker", "jobs"), sorted(workers.items()), bar="jobs"),
        Feed("done at a later attempt", again[-rows // 2 :][::-1]),
    )
