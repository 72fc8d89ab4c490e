"""Clusters and brokers. A service serves one cluster."""

from __future__ import annotations

from starlette.responses import Response

from headrace.client.cluster_client import Metadata, Node
from headrace.http.call import Call, as_json
from headrace.http.endpoint import Endpoint
from headrace.http.v3.resources import CLUSTER, LIST_ANSWER, RESOURCE_ANSWER, Links, check_cluster
from headrace.kernel.json_values import JsonObject
from headrace.web.errors import Problem


def _cluster(links: Links, metadata: Metadata) -> JsonObject:
    controller = metadata.controller_id
    return links.resource(
        "KafkaCluster",
        (),
        {
            "controller": links.related("brokers", controller) if controller >= 0 else None,
            "acls": links.related("acls"),
            "brokers": links.related("brokers"),
            "broker_configs": links.related("broker-configs"),
            "consumer_groups": links.related("consumer-groups"),
            "topics": links.related("topics"),
        },
    )


async def list_clusters(call: Call) -> Response:
    async with call.client() as client:
        metadata = await client.refresh(())
    links = Links(call, str(metadata.cluster_id))
    document = links.listed("KafkaClusterList", (), [_cluster(links, metadata)])
    return as_json({**document, "metadata": {"self": call.url("/v3/clusters"), "next": None}})


async def get_cluster(call: Call) -> Response:
    async with call.client() as client:
        metadata = await client.refresh(())
        links = Links(call, await check_cluster(call, client))
    return as_json(_cluster(links, metadata))


def _broker(links: Links, node: Node) -> JsonObject:
    path = ("brokers", node.id)
    return links.resource(
        "KafkaBroker",
        path,
        {
            "broker_id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "configs": links.related(*path, "configs"),
        },
    )


async def list_brokers(call: Call) -> Response:
    async with call.client() as client:
        metadata = await client.refresh(())
        links = Links(call, await check_cluster(call, client))
    nodes = [_broker(links, metadata.nodes[number]) for number in sorted(metadata.nodes)]
    return as_json(links.listed("KafkaBrokerList", ("brokers",), nodes))


async def get_broker(call: Call) -> Response:
    number = call.number_in_path("broker_id")
    async with call.client() as client:
        metadata = await client.refresh(())
        links = Links(call, await check_cluster(call, client))
    if number not in metadata.nodes:
        raise Problem(404, 404, f"broker {number} does not exist: the cluster has {sorted(metadata.nodes)}")
    return as_json(_broker(links, metadata.nodes[number]))


ENDPOINTS = (
    Endpoint("GET", "/v3/clusters", list_clusters, "List the clusters that this service serves.", answer=LIST_ANSWER),
    Endpoint("GET", CLUSTER, get_cluster, "Describe the cluster.", answer=RESOURCE_ANSWER),
    Endpoint("GET", f"{CLUSTER}/brokers", list_brokers, "List the brokers.", answer=LIST_ANSWER),
    Endpoint("GET", f"{CLUSTER}/brokers/{{broker_id}}", get_broker, "Describe a broker.", answer=RESOURCE_ANSWER),
)
