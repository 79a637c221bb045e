"""A2A agents on loopback, made with the protocol's own library. The user's first word selects what they do."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, TaskState
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response


def make_data_part(kind: str, **data: Any) -> Part:
    """Return the part that ADK's converter makes of a function call or response."""
    part = new_data_part(data)
    ParseDict({"adk_type": kind}, part.metadata)
    return part


class Executor(AgentExecutor):
    """Runs the method that the first word of the user names."""

    def __init__(self) -> None:
        self.contexts: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.present = 0
        self.all_present = asyncio.Event()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word, _, rest = context.get_user_input().partition(" ")
        self.contexts.append((context.context_id, context.task_id))
        if word == "message":
            await event_queue.enqueue_event(
                new_text_message(f"said {rest}", context_id=context.context_id, task_id=None)
            )
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        await getattr(self, word)(task, rest)

    async def work(self, task: TaskUpdater, rest: str) -> None:
        await task.start_work(task.new_agent_message([new_text_part("let me see")]))
        await task.add_artifact([new_text_part(f"found {rest}")], name="result")
        await task.add_artifact([new_text_part("and more")])
        await task.complete()

    async def chunks(self, task: TaskUpdater, rest: str) -> None:
        await task.start_work()
        for index, text in enumerate(("one ", "two ", "three")):
            await task.add_artifact(
                [new_text_part(text)], artifact_id="a", append=index > 0, last_chunk=text == "three"
            )
        await task.complete()

    async def calls(self, task: TaskUpdater, rest: str) -> None:
        call = make_data_part("function_call", id="c1", name="look", args={"at": rest, "times": 2})
        response = make_data_part("function_response", id="c1", name="look", response={"seen": True})
        usage = {"adk_author": "looker", "adk_usage_metadata": {"promptTokenCount": 7, "totalTokenCount": 9}}
        for parts in ([new_text_part("hm"), call], [response]):
            message = task.new_agent_message(parts)
            await task.update_status(TaskState.TASK_STATE_WORKING, message, metadata=usage)
        await task.add_artifact([new_text_part("looked")])
        await task.complete()

    async def many(self, task: TaskUpdater, rest: str) -> None:
        calls = [make_data_part("function_call", id=f"c{at}", name="look", args={"at": at}) for at in range(int(rest))]
        await task.update_status(TaskState.TASK_STATE_WORKING, task.new_agent_message(calls))
        await task.add_artifact([new_text_part("looked")])
        await task.complete()

    async def data(self, task: TaskUpdater, rest: str) -> None:
        await task.add_artifact([new_data_part({"rain": False, "degrees": 3})])
        await task.complete()

    async def ask(self, task: TaskUpdater, rest: str) -> None:
        await task.requires_input(task.new_agent_message([new_text_part("which one?")]))

    async def wordless(self, task: TaskUpdater, rest: str) -> None:
        await task.requires_input()

    async def slow(self, task: TaskUpdater, rest: str) -> None:
        await task.start_work()
        await asyncio.sleep(float(rest))
        await task.complete(task.new_agent_message([new_text_part("at last")]))

    async def meet(self, task: TaskUpdater, rest: str) -> None:
        """End when the given number of tasks run at the same time."""
        await task.start_work()
        self.present += 1
        if self.present == int(rest):
            self.all_present.set()
        await self.all_present.wait()
        await task.complete(task.new_agent_message([new_text_part("at last")]))

    async def fail(self, task: TaskUpdater, rest: str) -> None:
        await task.failed(task.new_agent_message([new_text_part("no such lamp")]))

    async def refuse(self, task: TaskUpdater, rest: str) -> None:
        await task.failed(task.new_agent_message([new_text_part(f"bad {rest}")]))

    async def reject(self, task: TaskUpdater, rest: str) -> None:
        await task.reject(task.new_agent_message([new_text_part("not my job")]))

    async def auth(self, task: TaskUpdater, rest: str) -> None:
        await task.requires_auth(task.new_agent_message([new_text_part("log in at x")]))

    async def crash(self, task: TaskUpdater, rest: str) -> None:
        raise RuntimeError("kaboom")

    async def silent(self, task: TaskUpdater, rest: str) -> None:
        await task.complete()


class Agent:
    """A served agent: its URL, and the requests that it received."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.executor = Executor()
        self.headers: list[dict[str, str]] = []
        self.refuse_with: Response | None = None
        """The response to every request except those for the card."""
        self.card: Any = None
        """The response that replaces the card."""

    def app(self, *, streaming: bool, binding: str, version: str) -> Any:
        card = AgentCard(
            name="lamps",
            description="Knows lamps.",
            version="1",
            supported_interfaces=[
                AgentInterface(url=f"{self.url}/rpc", protocol_binding=binding, protocol_version=version)
            ],
            capabilities=AgentCapabilities(streaming=streaming),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="s", name="switch", description="Switches lamps.", tags=["lamp"])],
        )
        handler = DefaultRequestHandler(self.executor, InMemoryTaskStore(), card)
        rest = binding == "HTTP+JSON"
        routes = create_agent_card_routes(card) + (
            create_rest_routes(handler, path_prefix="/rpc")
            if rest
            else create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)
        )
        inner = Starlette(routes=routes)

        async def outer(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            request = Request(scope)
            self.headers.append(dict(request.headers))
            is_card = ".well-known" in request.url.path
            other = self.card if is_card else self.refuse_with
            if isinstance(other, dict):
                other = JSONResponse(other)

            async def send_with_cookie(message: Any) -> None:
                if message["type"] == "http.response.start":
                    cookie = (b"set-cookie", f"sid=S{len(self.headers)}; Path=/".encode())
                    message = {**message, "headers": [*message["headers"], cookie]}
                await send(message)

            await (other or inner)(scope, receive, send_with_cookie)

        return outer


@contextmanager
def serving(
    make: Any = None, *, streaming: bool = True, binding: str = "JSONRPC", version: str = "1.0"
) -> Iterator[Agent]:
    """Run an agent within the context; `make` returns another application for a port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    agent = Agent(f"http://127.0.0.1:{port}")
    app = make(port) if make is not None else agent.app(streaming=streaming, binding=binding, version=version)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield agent
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
