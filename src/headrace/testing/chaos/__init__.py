"""Runs an application under a fault plan, and counts what it lost, doubled, disordered or left unread.

    plan = load_plan("plan.yml")                  # or plan_of({"application": …, "input": …, "output": …})
    report = run_plan(plan)
    report.write_html("chaos.html")
    assert report.is_clean, report

`headrace chaos run plan.yml` does the same. In reading order:

`plan`          the application, its topics and its faults, from YAML
`history`       acknowledgements and reads, and the checker that counts anomalies; the tests of Headrace use it too
`tokens`        how a record of the plan is recognised in what the application writes
`application`   the program under test as a process: killed, paused, started again
`target`        the cluster: in this process, or one that is already there
`load`          writes the input and watches the output
`fault_steps`   what happens when
`run`           a whole run
`report`        the result as text; `picture` is the HTML page
`command`       `headrace chaos`
"""

from headrace.testing.chaos.plan import Plan, PlanError, load_plan, plan_of
from headrace.testing.chaos.report import Report
from headrace.testing.chaos.run import run_plan

__all__ = ["Plan", "PlanError", "Report", "load_plan", "plan_of", "run_plan"]
