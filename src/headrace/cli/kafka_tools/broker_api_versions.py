"""kafka-broker-api-versions: versions of the APIs that each broker supports, and the version that this client uses."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.support.options import Arguments
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool
from headrace.client.cluster_client import ClusterClient
from headrace.wire import codec
from headrace.wire.apis import api_name

# APIs between controllers and brokers, which clients do not use: Raft, registration, heartbeats.
BETWEEN_SERVERS = {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}


def title(api_key: int) -> str:
    """`ListOffsets` for 2."""
    words = api_name(api_key).split("_")
    return "".join(word.capitalize() for word in words)


def usable(api_key: int, lowest: int, highest: int) -> str:
    try:
        ours = codec.known_versions(api_key)
    except KeyError:
        return "UNSUPPORTED"
    version = min(highest, ours[-1])
    return f"usable: {version}" if version >= max(lowest, ours[0]) else "UNSUPPORTED"


async def run(arguments: Arguments, client: ClusterClient) -> None:
    for node in sorted(client.metadata.nodes.values(), key=lambda n: n.id):
        connection = await client.connection(node.id)
        unserved = set(codec.known_apis()) - BETWEEN_SERVERS - set(connection.versions)
        lines = [
            f"\t{title(key)}({key}): {low if low == high else f'{low} to {high}'} [{usable(key, low, high)}]"
            if key not in unserved
            else f"\t{title(key)}({key}): UNSUPPORTED"
            for key, (low, high) in sorted((dict.fromkeys(unserved, (-1, -1)) | connection.versions).items())
        ]
        rack = "null" if node.rack is None else node.rack
        print(
            f"{node.host}:{node.port} (id: {node.id} rack: {rack} isFenced: false) -> (\n" + ",\n".join(lines) + "\n)"
        )


TOOL = Tool("Show the API versions that brokers speak.", CONNECTION, run)

if __name__ == "__main__":
    sys.exit(TOOL.main())
