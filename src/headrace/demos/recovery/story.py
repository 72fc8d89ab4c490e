"""Orders arrive all the time. First the service is killed, then a broker, while both are at work."""

from __future__ import annotations

import threading

from headrace.demos.stage import Stage


def run(stage: Stage) -> None:
    service = stage.service("invoice")
    third = stage.records // 3
    stage.send(third)
    stage.wait_for_records(third // 4, "invoices")
    service.kill()
    stage.say("the invoicing service is killed and starts again")
    service.start()
    stage.send(third)
    _kill_a_broker_while_orders_arrive(stage, stage.records - 2 * third)
    sent = stage.sender.sent.total
    with stage.cluster() as cluster:
        cluster.topic("acknowledged", dict).send({"orders": sent}, key="orders")
    stage.wait_for_records(sent, "invoices")


def _kill_a_broker_while_orders_arrive(stage: Stage, records: int) -> None:
    faults: list[BaseException] = []

    def send() -> None:
        try:
            stage.send(records)
        except BaseException as fault:
            # Boundary of the thread: raised below.
            faults.append(fault)

    sending = threading.Thread(target=send, daemon=True)
    if stage.brokers is None:
        stage.say("the brokers were not started by this demo, so none of them is killed")
        send()
    else:
        sending.start()
        stage.brokers.kill(1)
        left = "the others take over" if stage.brokers.count > 1 else "producer and service wait for it"
        stage.say(f"broker 1 is killed while orders arrive; {left}")
        stage.pause(3)
        stage.brokers.restart(1)
        stage.say("broker 1 is back with its data")
        sending.join(120)
    if faults:
        raise faults[0]
