"""Commands become events, events become two read models. The decider is killed. Both models are rebuilt by replay."""

from __future__ import annotations

from headrace.demos.stage import Stage


def run(stage: Stage) -> None:
    decider = stage.service("commands")
    stage.service("project", "balances", "balances")
    stage.service("project", "figures", "figures")
    half = stage.records // 2
    stage.send(half)
    stage.wait_for_records(half // 2, "account-events")
    decider.kill()
    stage.say("the service that decides is killed; it comes back and knows its balances from the events")
    decider.start()
    stage.send(stage.records - half)
    stage.wait_for_records(stage.sender.sent.total, "account-events")
    stage.say("both read models are rebuilt from the first event")
    stage.service("project", "balances", "balances-rebuilt")
    stage.service("project", "figures", "figures-rebuilt")
    _wait_for_equal_models(stage)


def _wait_for_equal_models(stage: Stage) -> None:
    seen = stage.contents("balances", "balances-rebuilt", "figures", "figures-rebuilt")
    wanted = stage.sender.sent.total

    def equal() -> bool:
        seen.read_new()
        counted = sum(each["number"] for each in seen.latest("figures-rebuilt").values())
        return counted == wanted and all(
            seen.latest(model) == seen.latest(f"{model}-rebuilt") for model in ("balances", "figures")
        )

    stage.wait_for(equal, "the rebuilt models to equal the live ones")
