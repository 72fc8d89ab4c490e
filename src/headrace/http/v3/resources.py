"""The common form of v3 answers: `kind`, `metadata` with the address of the resource, and links to related ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from headrace.client.cluster_client import ClusterClient
from headrace.http.call import Call
from headrace.http.endpoint import OBJECT, TEXT, Schema, a_list
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.web.errors import Problem

LIST_ANSWER: Schema = {
    "type": "object",
    "required": ["kind", "metadata", "data"],
    "properties": {"kind": TEXT, "metadata": OBJECT, "data": a_list(OBJECT)},
}
RESOURCE_ANSWER: Schema = {
    "type": "object",
    "required": ["kind", "metadata"],
    "properties": {"kind": TEXT, "metadata": OBJECT},
}
CLUSTER = "/v3/clusters/{cluster_id}"


def quoted(*parts: object) -> str:
    return "".join(f"/{quote(str(part), safe=':')}" for part in parts)


async def check_cluster(call: Call, client: ClusterClient) -> str:
    """The cluster id of the path. Raises Problem 404 if the service serves another cluster."""
    wanted = call.path("cluster_id")
    if client.metadata.cluster_id is None:
        await client.refresh(())
    if wanted != client.metadata.cluster_id:
        raise Problem(404, 404, f"Cluster {wanted} cannot be found.")
    return wanted


class Links:
    """Addresses and names of the resources of one cluster."""

    def __init__(self, call: Call, cluster_id: str) -> None:
        self._call = call
        self.cluster_id = cluster_id

    def url(self, *parts: object) -> str:
        return self._call.url(f"/v3/clusters{quoted(self.cluster_id, *parts)}")

    def related(self, *parts: object) -> dict[str, str]:
        return {"related": self.url(*parts)}

    def resource(self, kind: str, path: Sequence[object], fields: Mapping[str, JsonValue]) -> JsonObject:
        pairs = [f"{name}={value}" for name, value in zip(path[::2], path[1::2], strict=False)]
        name = "/".join([f"crn:///kafka={self.cluster_id}", *pairs]).replace("topics=", "topic=")
        return {
            "kind": kind,
            "metadata": {"self": self.url(*path), "resource_name": name},
            "cluster_id": self.cluster_id,
            **fields,
        }

    def listed(self, kind: str, path: Sequence[object], data: Sequence[Mapping[str, JsonValue]]) -> JsonObject:
        return {"kind": kind, "metadata": {"self": self.url(*path), "next": None}, "data": list(data)}
