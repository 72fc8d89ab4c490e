"""The requests of Kafka Connect's REST interface, with its paths, statuses and answers.

Actions of the worker may wait for a batch to end, so they run in threads beside the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace import __version__
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.pipelines.connect.connect_config import Missing
from headrace.pipelines.connect.connector_store import PAUSED, RUNNING, STOPPED
from headrace.pipelines.connect.translation import class_of, plugin_classes
from headrace.pipelines.connect.validation import validated
from headrace.pipelines.connect.worker import ConnectorExists, UnknownConnector, Worker, WrongState
from headrace.pipelines.errors import PipelineError
from headrace.web.body import json_body
from headrace.web.errors import Problem, bad_request

_CREATE_FIELDS: Final = ("name", "config", "initial_state")
_RESTARTING: Final = "RESTARTING"
_HEALTHY: Final = "Worker has completed startup and is ready to handle requests."
_ALTERED: Final = "The offsets for this connector have been altered successfully"
_RESET: Final = "The offsets for this connector have been reset successfully"
_P = ParamSpec("_P")
_T = TypeVar("_T")


async def _call(action: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
    """Runs an action of the worker. Its errors become Kafka Connect's statuses."""
    try:
        return await asyncio.to_thread(action, *arguments, **named)
    except UnknownConnector as error:
        raise Problem(404, 404, str(error)) from error
    except ConnectorExists as error:
        raise Problem(409, 409, str(error)) from error
    except WrongState as error:
        raise bad_request(str(error)) from error
    except Missing as missing:
        count, listed = len(missing.sentences), "\n".join(missing.sentences)
        raise bad_request(
            f"Connector configuration is invalid and contains the following {count} error(s):\n{listed}"
        ) from missing
    except PipelineError as error:
        raise bad_request(str(error)) from error


class ConnectRoutes:
    def __init__(self, worker: Worker, worker_id: str, cluster_id: Callable[[], Awaitable[str]]) -> None:
        self.worker, self.worker_id, self._cluster_id = worker, worker_id, cluster_id

    def routes(self) -> list[Route]:
        one, task = "/connectors/{name}", "/connectors/{name}/tasks/{task:int}"
        table: tuple[tuple[str, str, Callable[[Request], Awaitable[Response]]], ...] = (
            ("GET", "/", self.root),
            ("GET", "/health", self.health),
            ("GET", "/connectors", self.list),
            ("POST", "/connectors", self.create),
            ("GET", one, self.info),
            ("DELETE", one, self.delete),
            ("GET", f"{one}/config", self.config),
            ("PUT", f"{one}/config", self.configure),
            ("PATCH", f"{one}/config", self.patch),
            ("GET", f"{one}/status", self.status),
            ("PUT", f"{one}/pause", self._state(PAUSED, 202)),
            ("PUT", f"{one}/resume", self._state(RUNNING, 202)),
            ("PUT", f"{one}/stop", self._state(STOPPED, 204)),
            ("POST", f"{one}/restart", self.restart),
            ("GET", f"{one}/tasks", self.tasks),
            ("GET", f"{task}/status", self.task_status),
            ("POST", f"{task}/restart", self.restart_task),
            ("GET", f"{one}/topics", self.topics),
            ("PUT", f"{one}/topics/reset", self.topics_reset),
            ("GET", f"{one}/offsets", self.offsets),
            ("PATCH", f"{one}/offsets", self.alter_offsets),
            ("DELETE", f"{one}/offsets", self.reset_offsets),
            ("GET", "/connector-plugins", self.plugins),
            ("PUT", "/connector-plugins/{name}/config/validate", self.validate),
        )
        return [Route(path, handler, methods=[method]) for method, path, handler in table]

    async def root(self, _: Request) -> Response:
        return JSONResponse(
            {"version": f"headrace {__version__}", "commit": "unknown", "kafka_cluster_id": await self._cluster_id()}
        )

    async def health(self, _: Request) -> Response:
        """It listens when every stored connector has been started, so an answer is a healthy one."""
        return JSONResponse({"status": "healthy", "message": _HEALTHY})

    async def list(self, request: Request) -> Response:
        wanted = request.query_params.getlist("expand")
        names = self.worker.names()
        if not wanted:
            return JSONResponse(names)
        found: dict[str, JsonObject] = {}
        for name in names:
            entry: JsonObject = {}
            if "status" in wanted:
                entry["status"] = await _call(self.worker.status, name, self.worker_id)
            if "info" in wanted:
                entry["info"] = await self._info(name)
            found[name] = entry
        return JSONResponse(found)

    async def _info(self, name: str) -> JsonObject:
        connector = await _call(self.worker.connector, name)
        count = await _call(self.worker.task_count, name)
        return {
            "name": name,
            "config": {"name": name, **connector.config},
            "tasks": [{"connector": name, "task": number} for number in range(count)],
            "type": await _call(self.worker.kind, name),
        }

    async def create(self, request: Request) -> Response:
        body = await json_body(request)
        if not isinstance(body, dict) or not isinstance(body.get("name"), str):
            raise bad_request('the body must have "name" and "config"')
        if unknown := next((field for field in body if field not in _CREATE_FIELDS), None):
            raise bad_request(f"the body has the field {unknown!r}: known are {', '.join(_CREATE_FIELDS)}")
        name, config = body["name"], _settings(body.get("config"), body["name"])
        await _call(self.worker.create, name, config, str(body.get("initial_state") or RUNNING).upper())
        return JSONResponse(await self._info(name), 201, headers={"Location": f"/connectors/{name}"})

    async def info(self, request: Request) -> Response:
        return JSONResponse(await self._info(_name(request)))

    async def delete(self, request: Request) -> Response:
        await _call(self.worker.remove, _name(request))
        return Response(status_code=204)

    async def config(self, request: Request) -> Response:
        connector = await _call(self.worker.connector, _name(request))
        return JSONResponse({"name": connector.name, **connector.config})

    async def configure(self, request: Request) -> Response:
        name = _name(request)
        is_new = await _call(self.worker.configure, name, _settings(await json_body(request), name))
        return JSONResponse(await self._info(name), 201 if is_new else 200)

    async def patch(self, request: Request) -> Response:
        """A value of null removes the setting."""
        name, body = _name(request), await json_body(request)
        before = await _call(self.worker.connector, name)
        if not isinstance(body, dict):
            raise bad_request("the body must be an object of settings")
        kept = {key: value for key, value in before.config.items() if body.get(key, value) is not None}
        changed = {key: value for key, value in body.items() if value is not None}
        await _call(self.worker.configure, name, _settings({**kept, **changed}, name))
        return JSONResponse(await self._info(name))

    async def status(self, request: Request) -> Response:
        return JSONResponse(await _call(self.worker.status, _name(request), self.worker_id))

    def _state(self, state: str, status: int) -> Callable[[Request], Awaitable[Response]]:
        async def change(request: Request) -> Response:
            await _call(self.worker.set_state, _name(request), state)
            return Response(status_code=status)

        return change

    async def restart(self, request: Request) -> Response:
        name, asked = _name(request), request.query_params
        with_tasks, only_failed = asked.get("includeTasks") == "true", asked.get("onlyFailed") == "true"
        # Here a connector is its tasks: there is nothing else to restart.
        restarted = await _call(self.worker.restart, name, only_failed=only_failed)
        if not with_tasks and not only_failed:
            return Response(status_code=204)
        status = await _call(self.worker.status, name, self.worker_id)
        return JSONResponse(_restarting(status, restarted, with_connector=not only_failed), 202)

    async def tasks(self, request: Request) -> Response:
        name = _name(request)
        connector, count = await _call(self.worker.connector, name), await _call(self.worker.task_count, name)
        entries: list[JsonValue] = [
            {"id": {"connector": name, "task": number}, "config": {"name": name, **connector.config}}
            for number in range(count)
        ]
        return JSONResponse(entries)

    async def task_status(self, request: Request) -> Response:
        name, number = _name(request), int(request.path_params["task"])
        tasks = (await _call(self.worker.status, name, self.worker_id))["tasks"]
        assert isinstance(tasks, list)
        if number >= len(tasks):
            raise Problem(404, 404, f"No status found for task {name}-{number}")
        return JSONResponse(tasks[number])

    async def restart_task(self, request: Request) -> Response:
        await _call(self.worker.restart, _name(request), task=int(request.path_params["task"]))
        return Response(status_code=204)

    async def topics(self, request: Request) -> Response:
        name = _name(request)
        return JSONResponse({name: {"topics": await _call(self.worker.topics, name)}})

    async def topics_reset(self, _: Request) -> Response:
        """The topics are those of the configuration, so there is no list to empty."""
        return Response(status_code=202)

    async def offsets(self, request: Request) -> Response:
        return JSONResponse({"offsets": await _call(self.worker.offsets, _name(request))})

    async def alter_offsets(self, request: Request) -> Response:
        body = await json_body(request)
        entries = body.get("offsets") if isinstance(body, dict) else None
        if not isinstance(entries, list) or not entries or not all(isinstance(one, dict) for one in entries):
            raise bad_request('the body must have a list "offsets" of objects with partition and offset')
        await _call(self.worker.alter_offsets, _name(request), entries)
        return JSONResponse({"message": _ALTERED})

    async def reset_offsets(self, request: Request) -> Response:
        await _call(self.worker.reset_offsets, _name(request))
        return JSONResponse({"message": _RESET})

    async def plugins(self, _: Request) -> Response:
        found = [{"class": name, "type": kind, "version": __version__} for name, kind in plugin_classes().items()]
        return JSONResponse(found)

    async def validate(self, request: Request) -> Response:
        name = _name(request)
        if class_of(name) is None:
            raise Problem(404, 404, f"Failed to find any class that implements Connector and which name matches {name}")
        body = await json_body(request)
        given = _settings(body, body.get("name") if isinstance(body, dict) else None, keeps_name=True)
        if class_of(included := given.get("connector.class", name)) != class_of(name):
            raise bad_request(f"Included connector type {included} does not match request type {name}")
        config = {"connector.class": name, **given}
        return JSONResponse(await asyncio.to_thread(validated, name, config, self.worker.store.check))


def _restarting(status: JsonObject, tasks: Sequence[int], *, with_connector: bool) -> JsonObject:
    """The status with what is being restarted, as the answer to a restart has it."""
    connector, entries = status["connector"], status["tasks"]
    assert isinstance(connector, dict) and isinstance(entries, list)
    shown: list[JsonValue] = []
    for number, entry in enumerate(entries):
        assert isinstance(entry, dict)
        shown.append({**entry, "state": _RESTARTING} if number in tasks else entry)
    if with_connector and connector["state"] == RUNNING:
        connector = {**connector, "state": _RESTARTING}
    return {**status, "connector": connector, "tasks": shown}


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _settings(given: object, name: object, *, keeps_name: bool = False) -> Mapping[str, str]:
    if not isinstance(given, dict) or any(isinstance(value, (dict, list)) for value in given.values()):
        raise bad_request("the configuration must be an object of settings with texts as values")
    if not keeps_name and given.get("name", name) != name:
        raise bad_request(
            f"Connector name configuration ({given['name']}) doesn't match connector name in the URL ({name})"
        )
    texts = {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in given.items()
        if value is not None
    }
    return texts if keeps_name else {key: value for key, value in texts.items() if key != "name"}
