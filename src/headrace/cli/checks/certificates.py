"""Finds broker certificates that have expired or soon will. Nothing else warns before clients fail."""

from __future__ import annotations

import asyncio

from headrace.cli.checks.findings import Finding, State, well
from headrace.client.cluster_client import ClusterClient
from headrace.client.shown_certificate import shown_certificate
from headrace.kernel.plurals import counted

_NAME = "certificates"


async def certificates(client: ClusterClient) -> list[Finding]:
    """Checks the certificate of every broker as a client sees it. Skipped if the client connects in plain text."""
    if client.security is None or not client.security.encrypted:
        return []
    findings = []
    nodes = sorted(client.metadata.nodes.values(), key=lambda node: node.id)
    for node in nodes:
        shown = await asyncio.to_thread(shown_certificate, node.host, node.port, client.timeout)
        if shown is not None and shown.warning is not None:
            state = State.WARN if shown.is_valid else State.FAIL
            findings.append(
                Finding(
                    _NAME, state, f"broker {node.id} at {node.host}:{node.port}: {shown.warning}",
                    "replace the files of ssl.keystore.location: the broker takes the new ones without a restart",
                    about=("broker", str(node.id)),
                )
            )  # fmt: skip
    return findings or well(_NAME, f"valid for more than 30 days on {counted(len(nodes), 'broker')}")
