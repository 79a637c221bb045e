"""Session stores of ADK, written by google-adk itself: its table definitions, events and session services."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest

LAYOUTS = ("v0", "v1", "service")
"""`DatabaseSessionService` before 1.22 and since, and `SqliteSessionService`."""


def text(value: str) -> Any:
    """Return a part with text."""
    from google.genai import types

    return types.Part.from_text(text=value)


def call(name: str, call_id: str | None = None, **args: Any) -> Any:
    """Return a part with a call."""
    from google.genai import types

    return types.Part(function_call=types.FunctionCall(id=call_id or name, name=name, args=args))


def result(name: str, call_id: str | None = None, **response: Any) -> Any:
    """Return a part with the response of a tool."""
    from google.genai import types

    return types.Part(function_response=types.FunctionResponse(id=call_id or name, name=name, response=response))


def image(data: bytes) -> Any:
    """Return a part with binary data."""
    from google.genai import types

    return types.Part.from_bytes(data=data, mime_type="image/png")


def event(
    author: str, *parts: Any, invocation: str = "i1", actions: dict[str, Any] | None = None, **fields: Any
) -> Any:
    """Return an event of ADK."""
    from google.adk.events import Event, EventActions
    from google.genai import types

    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=list(parts)) if parts else None
    return Event(
        author=author, invocation_id=invocation, content=content, actions=EventActions(**(actions or {})), **fields
    )


def conversation() -> list[Any]:
    """Return a turn with parallel calls, a sub-agent and changes of state, and one with an image."""
    return [
        event("user", text("turn on the light"), actions={"state_delta": {"language": "en"}}),
        event("home", text("One moment."), call("set_light", "1", on=True), call("find", "2", room="hall")),
        event("home", result("set_light", "1", ok=True), result("find", "2", id=7), actions={"state_delta": {"on": 1}}),
        event("helper", text("The helper agrees.")),
        event("home", text("The light is on.")),
        event("user", text("look"), image(b"\xff\xfe\x00"), invocation="i2"),
        event("home", text("A picture."), invocation="i2"),
    ]


def write_store(
    path: Path,
    layout: str,
    events: list[Any] | None = None,
    *,
    session: str = "s1",
    user: str = "ann",
    state: dict[str, Any] | None = None,
) -> Path:
    """Add a session to a store. Its state is what ADK makes of `state` and the changes in the events."""
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("aiosqlite")
    events = conversation() if events is None else events
    first = {"room": "kitchen"} if state is None else state
    if layout == "service":
        asyncio.run(_write_with_service(path, events, session=session, user=user, state=first))
    else:
        _write_with_tables(path, layout, events, session=session, user=user, state=first)
    return path


async def _write_with_service(path: Path, events: list[Any], *, session: str, user: str, state: dict[str, Any]) -> None:
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    service = SqliteSessionService(str(path))
    created = await service.create_session(app_name="home", user_id=user, session_id=session, state=state)
    for each in events:
        await service.append_event(created, each)


def _write_with_tables(
    path: Path, layout: str, events: list[Any], *, session: str, user: str, state: dict[str, Any]
) -> None:
    import sqlalchemy
    from google.adk.sessions import Session
    from google.adk.sessions.schemas import v0, v1
    from sqlalchemy import orm

    schema: Any = v0 if layout == "v0" else v1
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    schema.Base.metadata.create_all(engine)
    now = dict(state)
    for each in events:
        now.update(each.actions.state_delta)
    owner = Session(app_name="home", user_id=user, id=session)
    with orm.Session(engine) as database, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if layout == "v1" and database.get(v1.StorageMetadata, "schema_version") is None:
            database.add(v1.StorageMetadata(key="schema_version", value="1"))
        database.add(schema.StorageSession(app_name="home", user_id=user, id=session, state=now))
        database.flush()
        for each in events:
            database.add(schema.StorageEvent.from_event(owner, each))
        database.commit()
    engine.dispose()
