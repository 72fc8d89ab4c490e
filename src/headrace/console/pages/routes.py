"""Every page with its address below /clusters/NAME, and the entries of the navigation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response

from headrace.console.pages.demos import demos
from headrace.console.pages.export import export
from headrace.console.pages.flow import flow
from headrace.console.pages.flow_commands import command_flow
from headrace.console.pages.groups import delete_group, group, groups, reset_group
from headrace.console.pages.messages import messages, raw, record, search, tail
from headrace.console.pages.operations import broker_configuration, end_transaction, operations
from headrace.console.pages.overview import examine, overview
from headrace.console.pages.pipelines import pipeline, pipelines
from headrace.console.pages.produce import produce
from headrace.console.pages.reassignments import cancel_reassignments, drain_broker
from headrace.console.pages.redrive import redrive
from headrace.console.pages.schemas import register_schema, schemas, subject
from headrace.console.pages.searches import save_search
from headrace.console.pages.security import security
from headrace.console.pages.sql import sql
from headrace.console.pages.topic_changes import configure_topic, create_topic, delete_topic, empty_topic, grow_topic
from headrace.console.pages.topics import topic, topics
from headrace.console.rendering import View
from headrace.console.visit import Redirect, Visit

Page = Callable[[Visit], Awaitable[View | Redirect | Response]]
READ: Final = ("GET",)
CHANGE: Final = ("GET", "POST")

PAGES: Final[tuple[tuple[str, Page, tuple[str, ...]], ...]] = (
    ("", overview, READ),
    ("/examine", examine, ("POST",)),
    ("/topics", topics, READ),
    ("/new-topic", create_topic, CHANGE),
    ("/topics/{topic}", topic, READ),
    ("/topics/{topic}/messages", messages, READ),
    ("/topics/{topic}/messages/{partition:int}/{offset:int}", record, READ),
    ("/topics/{topic}/messages/{partition:int}/{offset:int}/{part}", raw, READ),
    ("/topics/{topic}/search", search, READ),
    ("/topics/{topic}/tail", tail, READ),
    ("/topics/{topic}/export", export, READ),
    ("/topics/{topic}/produce", produce, CHANGE),
    ("/topics/{topic}/redrive", redrive, ("POST",)),
    ("/topics/{topic}/searches", save_search, ("POST",)),
    ("/topics/{topic}/configure", configure_topic, CHANGE),
    ("/topics/{topic}/grow", grow_topic, CHANGE),
    ("/topics/{topic}/empty", empty_topic, CHANGE),
    ("/topics/{topic}/delete", delete_topic, CHANGE),
    # The name of a group may hold any character, a slash too: it stands in the query.
    ("/groups", groups, READ),
    ("/group", group, READ),
    ("/group/reset", reset_group, CHANGE),
    ("/group/delete", delete_group, CHANGE),
    ("/pipelines", pipelines, READ),
    ("/pipeline", pipeline, READ),
    ("/pipeline/{action}", command_flow, CHANGE),
    ("/flow", flow, READ),
    ("/demos", demos, READ),
    ("/schemas", schemas, READ),
    ("/subject", subject, READ),
    ("/register-schema", register_schema, CHANGE),
    ("/sql", sql, READ),
    ("/security", security, READ),
    ("/operations", operations, READ),
    ("/end-transaction", end_transaction, CHANGE),
    ("/cancel-reassignments", cancel_reassignments, CHANGE),
    ("/brokers/{broker}", broker_configuration, READ),
    ("/brokers/{broker}/drain", drain_broker, CHANGE),
)

# (section, its first part of the address, its label, its key after `g`)
SECTIONS: Final = (
    ("overview", "", "Overview", "o"),
    ("topics", "topics", "Topics", "t"),
    ("groups", "groups", "Groups", "g"),
    ("pipelines", "pipelines", "Pipelines", "p"),
    ("flow", "flow", "Flow", "f"),
    ("schemas", "schemas", "Schemas", "s"),
    ("sql", "sql", "SQL", "q"),
    ("security", "security", "Security", "x"),
    ("operations", "operations", "Operations", "a"),
)
