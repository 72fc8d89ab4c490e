"""kafka-cluster: shows the cluster id and the endpoints, unregisters a broker."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tables import columns, fitted
from headrace.cli.kafka_tools.support.tool import Tool, ToolFailed, answer_error, connection_with
from headrace.client.cluster_client import ClusterClient
from headrace.client.errors import Unsupported
from headrace.wire.apis import ApiKey

ACTIONS = ("cluster-id", "unregister", "list-endpoints")
OPTIONS = (
    *connection_with("config"),
    Option("id", "The broker to unregister.", "number", int),
    Option("include-fenced-brokers", "Show brokers that are fenced, too."),
)


def check(arguments: Arguments) -> None:
    if len(arguments.rest) != 1 or arguments.rest[0] not in ACTIONS:
        raise UsageError(f"One of {', '.join(ACTIONS)} must be given")


async def run(arguments: Arguments, client: ClusterClient) -> None:
    action = arguments.rest[0]
    if action == "cluster-id":
        print(f"Cluster ID: {client.metadata.cluster_id}")
    elif action == "unregister":
        arguments.require("id")
        try:
            answer = await client.to_controller(ApiKey.UNREGISTER_BROKER, {"broker_id": arguments["id"]})
        except Unsupported as fault:
            raise ToolFailed("The target cluster does not support the broker unregistration API.") from fault
        if answer.error_code:
            raise ToolFailed(answer_error(answer))
        print(f"Broker {arguments['id']} is no longer registered.")
    else:
        await list_endpoints(arguments, client)


async def list_endpoints(arguments: Arguments, client: ClusterClient) -> None:
    fenced_too = bool(arguments["include-fenced-brokers"])
    body = {"endpoint_type": 1, "include_fenced_brokers": fenced_too, "include_cluster_authorized_operations": False}
    answer = await client.request(ApiKey.DESCRIBE_CLUSTER, body)
    if answer.error_code:
        raise ToolFailed(answer_error(answer))
    rows: list[list[object]] = [["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]]
    for broker in answer.brokers:
        state = "fenced" if getattr(broker, "is_fenced", False) else "unfenced"
        rows.append([int(broker.broker_id), broker.host, int(broker.port), broker.rack or "null", state, "broker"])
    print(columns(rows, fitted(rows, [10, 9, 10, 10, 10, 15]), pad_last=True))


TOOL = Tool(
    "Show or change the cluster: cluster-id, list-endpoints, unregister.", OPTIONS, run, check=check, allow_rest=True
)

if __name__ == "__main__":
    sys.exit(TOOL.main())
