"""Internal topics of brokers and tools, and what is lost if one is deleted.

A broker deletes such a topic on request, as Kafka does. Our commands, the console, the HTTP API and Python functions
require an extra flag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from headrace.kernel.ids import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC

_LOST: Final = {
    GROUP_METADATA_TOPIC: "the committed offsets and members of every group: consumers begin again at "
    "auto.offset.reset, and so read records twice or skip them",
    TRANSACTION_STATE_TOPIC: "the state of every transaction: open ones never end (readers of committed records wait "
    "behind them until each is aborted by hand), and transactional producers are no longer fenced",
    SHARE_GROUP_STATE_TOPIC: "what every share group has acknowledged: share groups begin again",
    "_schemas": "every schema of the schema registry: records that were written with them can no longer be decoded",
    "__pipelines": "the progress of every pipeline: status shows nothing until the next batch",
    "__pipeline_commands": "what people asked running pipelines to do: nothing that a pipeline needs",
    "__sink_ledger": "which batches every exactly-once pipeline has written, and which dead letters were settled: a "
    "restarted pipeline may write rows twice, and letters may be retried twice",
    "__streams": "which topics every Spark query has read: a query that is stopped meanwhile does not notice that a "
    "topic was deleted and created again",
    "connect-configs": "the configuration of every connector of Kafka Connect",
    "connect-offsets": "the positions of every source connector of Kafka Connect: they read their sources again",
    "connect-status": "the state of every connector and task of Kafka Connect",
}
_OTHERS: Final = re.compile(r"__.*|_confluent.*|.*\.internal")


def loss(topic: str) -> str | None:
    """What is lost with an internal topic; None for other topics."""
    if topic in _LOST:
        return _LOST[topic]
    return "the state that a program keeps in it" if _OTHERS.fullmatch(topic) else None


def refusal(topics: Iterable[str], flag: str, *, only_records: bool = False) -> str | None:
    """Error message if an internal topic would be deleted without the flag; None if there is none. `only_records`: the
    topic stays, and its records are deleted."""
    internal = {topic: lost for topic in topics if (lost := loss(topic)) is not None}
    if not internal:
        return None
    each = "; ".join(f"{topic} holds {lost}" for topic, lost in internal.items())
    one = len(internal) == 1
    done, do, what = ("emptied", "empty", "record") if only_records else ("deleted", "delete", "topic")
    return (
        f"{'an internal topic is' if one else 'internal topics are'} not {done} without {flag}, and no {what} was "
        f"deleted. {each}. Give {flag} to {do} {'it' if one else 'them'} all the same"
    )
