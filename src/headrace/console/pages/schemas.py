"""Schemas of the registry: subjects, versions, the difference of two, a compatibility check, registration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from headrace.console.core.listing import Wanted, listing
from headrace.console.core.text_diff import line_diff
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Redirect, Visit
from headrace.kernel.json_values import JsonObject
from headrace.serialization.errors import RegistryError, RegistryUnreachable
from headrace.serialization.registry_client import RegistryClient, in_path
from headrace.serialization.schema_text import indented

KINDS: Final = ("AVRO", "JSON", "PROTOBUF")
_BAD_GATEWAY: Final = 502
T = TypeVar("T")


async def _asked(visit: Visit, question: Callable[[RegistryClient], T]) -> T:
    """Asks the registry in a thread. Raises Rejected with its message."""
    registry = visit.cluster.registry
    if registry is None:
        raise Rejected(404, "this console has no schema registry: start it with --registry URL")
    try:
        return await asyncio.to_thread(question, registry)
    except RegistryUnreachable as fault:
        raise Rejected(_BAD_GATEWAY, f"{fault}. Start it, or check the address after --registry") from fault
    except RegistryError as fault:
        # An error of the registry itself must not look like one of the console or of the cluster.
        status = fault.status if 400 <= fault.status < 500 else _BAD_GATEWAY
        raise Rejected(status, f"the registry answers: {fault}") from fault


async def schemas(visit: Visit) -> View:
    if visit.cluster.registry is None:
        return View("schemas.html", "Schemas", {"registry": None, "subjects": None, "level": ""}, section="schemas")
    subjects: list[str] = await _asked(visit, lambda registry: registry.call("GET", "/subjects"))
    config: JsonObject = await _asked(visit, lambda registry: registry.call("GET", "/config"))
    page = listing(subjects, Wanted.of(visit.query, "name"), {}, lambda name: name)
    data = {
        "registry": visit.cluster.registry.url, "subjects": page, "level": str(config.get("compatibilityLevel", "")),
    }  # fmt: skip
    return View("schemas.html", "Schemas", data, section="schemas")


async def subject(visit: Visit) -> View:
    name = visit.query.get("name", "")
    path = f"/subjects/{in_path(name)}/versions"
    versions: list[int] = await _asked(visit, lambda registry: registry.call("GET", path))
    chosen = _version(visit, "version", versions, versions[-1])
    older = _version(visit, "against", versions, versions[max(0, versions.index(chosen) - 1)])
    found: JsonObject = await _asked(visit, lambda registry: registry.call("GET", f"{path}/{chosen}"))
    other: JsonObject = await _asked(visit, lambda registry: registry.call("GET", f"{path}/{older}"))
    level: JsonObject = await _asked(
        visit, lambda registry: registry.call("GET", f"/config/{in_path(name)}?defaultToGlobal=true")
    )
    text = indented(str(found["schema"]))
    data = {
        "subject": name,
        "versions": versions,
        "version": chosen,
        "against": older,
        "id": found["id"],
        "kind": found.get("schemaType", "AVRO"),
        "text": text,
        "references": found.get("references") or [],
        "level": level.get("compatibilityLevel", ""),
        "diff": line_diff(indented(str(other["schema"])), text) if older != chosen else [],
    }
    return View("subject.html", name, data, section="schemas")


def _version(visit: Visit, field: str, versions: list[int], default: int) -> int:
    text = visit.query.get(field, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) not in versions:
        raise Rejected(404, f"version {text!r}: the subject has {', '.join(map(str, versions))}")
    return int(text)


async def register_schema(visit: Visit) -> View | Redirect:
    """A form with two buttons: check against the last version, or register."""
    values = {"subject": visit.query.get("name", ""), "kind": "AVRO", "schema": ""}
    error, answer = "", None
    if visit.submitted:
        form = await visit.form()
        values = {"subject": form.text("subject"), "kind": form.text("kind"), "schema": form.raw("schema")}
        body = {"schema": values["schema"], "schemaType": values["kind"]}
        path = in_path(values["subject"])
        try:
            if form.text("action") == "check":
                answer = await _asked(
                    visit,
                    lambda registry: registry.call(
                        "POST", f"/compatibility/subjects/{path}/versions/latest?verbose=true", body
                    ),
                )
            else:
                await _asked(visit, lambda registry: registry.call("POST", f"/subjects/{path}/versions", body))
                return visit.done(f"Registered a schema of {values['subject']}.", "subject", name=values["subject"])
        except Rejected as fault:
            error = fault.message
    elif values["subject"]:
        path = in_path(values["subject"])
        latest: JsonObject = await _asked(
            visit, lambda registry: registry.call("GET", f"/subjects/{path}/versions/latest")
        )
        values |= {"kind": str(latest.get("schemaType", "AVRO")), "schema": indented(str(latest["schema"]))}
    data = {"values": values, "kinds": KINDS, "error": error, "answer": answer}
    return View("schema_register.html", "Register a schema", data, 422 if error else 200, "schemas")
