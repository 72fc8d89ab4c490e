"""A broker for tests: in this process, or as a separate process that can be killed.

    with broker() as running:                        # own thread and event loop, free port, own directory
        Producer({"bootstrap.servers": running.bootstrap})
    with broker_process(data_dir=directory) as running:
        running.kill()                               # SIGKILL: the directory looks as after a crash

`in_process` and `process` implement the two kinds. `simulation` runs a whole cluster on virtual time.
`headrace_broker` is a pytest fixture with the in-process broker: `pytest_plugins = ["headrace.testing.fixtures"]`.
"""

from headrace.testing.in_process import RunningBroker, broker
from headrace.testing.process import BrokerProcess, broker_process

__all__ = ["BrokerProcess", "RunningBroker", "broker", "broker_process"]
