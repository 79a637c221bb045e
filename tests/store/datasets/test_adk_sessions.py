"""Sessions of ADK: stores of each layout that google-adk wrote, and exported sessions."""

from __future__ import annotations

import os
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.store.datasets.adk_stores import (
    LAYOUTS,
    call,
    conversation,
    event,
    image,
    result,
    text,
    write_store,
)
from workbench.model.trace import get_trajectory
from workbench.model.turn_diff import list_messages
from workbench.store.datasets.adk_sessions import (
    NO_USER_MESSAGE,
    SourceSession,
    is_adk_session,
    open_adk_store,
    parse_time,
    read_adk_session,
)
from workbench.store.errors import StoreError

pytestmark = pytest.mark.needs_adk


def read_store(path: Path) -> list[SourceSession]:
    with open_adk_store(path) as store:
        return [store.read_session(head) for head in store.list_heads()]


def read_events(*events: Any, state: dict[str, Any] | None = None) -> SourceSession:
    """Read a session as `adk web` exports it."""
    from google.adk.sessions import Session

    session = Session(id="s", app_name="home", user_id="ann", events=list(events), state=state or {})
    data = session.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert is_adk_session(data)
    return read_adk_session(data)


def list_texts(session: SourceSession) -> list[tuple[str, str | None]]:
    return [
        (turn.user_content.text(), None if turn.final_response is None else turn.final_response.text())
        for turn in session.turns
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_turns_of_a_store(tmp_path: Path, layout: str) -> None:
    (session,) = read_store(write_store(tmp_path / "a.db", layout))

    assert (session.id, session.app, session.user, session.problem) == ("s1", "home", "ann", None)
    assert list_texts(session) == [("turn on the light", "The light is on."), ("look", "A picture.")]
    assert get_trajectory(session.turns[0]) == [("set_light", {"on": True}), ("find", {"room": "hall"})]
    said = [(each.author, each.text) for each in list_messages(session.turns[0])]
    assert said == [("home", "One moment."), ("helper", "The helper agrees.")]
    assert session.turns[1].user_content.model_dump()["parts"][1]["inline_data"]["data"] == "__4A"
    assert session.began is not None
    assert abs(session.began.timestamp() - session.turns[0].creation_timestamp) < 1


@pytest.mark.parametrize("layout", ["v1", "service"])
def test_the_state_is_that_at_the_start(tmp_path: Path, layout: str) -> None:
    (session,) = read_store(write_store(tmp_path / "a.db", layout))

    assert session.state == {"room": "kitchen", "language": "en"}
    assert session.notes == ("state that the session set is left out, its value at the start is unknown: on",)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "attacked"),)

    path = write_store(tmp_path / "a.db", "v0")
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("update events set actions = ?", (pickle.dumps(Attack()),))

    (session,) = read_store(path)

    assert not (tmp_path / "attacked").exists()
    assert list_texts(session)[0] == ("turn on the light", "The light is on.")
    assert session.state == {}
    assert "adk migrate session" in session.notes[0]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_store_is_not_changed(tmp_path: Path, layout: str, mode: str) -> None:
    path = write_store(tmp_path / "a.db", layout)
    with closing(sqlite3.connect(path)) as store:
        store.execute(f"pragma journal_mode={mode}")
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    read_store(path)

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_what_a_live_writer_committed_is_read(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", "v1")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("pragma journal_mode=wal")
        writer.execute("update sessions set id = 'renamed'")
        writer.execute("update events set session_id = 'renamed'")
        writer.commit()
        writer.execute("delete from events")  # not committed

        (session,) = read_store(path)

        assert session.id == "renamed"
        assert len(session.turns) == 2


def test_a_log_without_its_index_is_read_from_a_copy(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", "v1")
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("pragma journal_mode=wal")
        writer.execute("update sessions set user_id = 'eve'")
        writer.execute("update events set user_id = 'eve'")
        writer.commit()
        copy.write_bytes(path.read_bytes())
        (tmp_path / "copy.db-wal").write_bytes((tmp_path / "a.db-wal").read_bytes())

        (session,) = read_store(copy)

    assert session.user == "eve"
    assert not (tmp_path / "copy.db-shm").exists()


def test_an_unfinished_transaction_is_undone_in_a_copy(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", "v1")
    folder = tmp_path / "copy"
    folder.mkdir()
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("pragma cache_size=1")
        writer.execute("update sessions set user_id = 'eve'")
        writer.execute("update events set user_id = 'eve', event_data = event_data || ?", (" " * 100_000,))
        for name in ("a.db", "a.db-journal"):
            (folder / name).write_bytes((tmp_path / name).read_bytes())
    before = {each.name: each.read_bytes() for each in folder.iterdir()}

    (session,) = read_store(folder / "a.db")

    assert session.user == "ann"
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before


def test_an_unknown_version(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", "v1")
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("update adk_internal_metadata set value = '7'")

    with pytest.raises(StoreError, match=r"found schema version '7' of ADK's session store, expected 0 or 1"):
        read_store(path)


def test_another_database(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("create table songs (id)")

    with pytest.raises(StoreError, match="found a SQLite file with songs, expected the tables of a session store"):
        read_store(path)


def test_a_truncated_database(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", "v1")
    path.write_bytes(path.read_bytes()[:5000])

    with pytest.raises(StoreError, match="cannot read it as a SQLite file"):
        read_store(path)


@pytest.mark.parametrize("layout", ["v0", "v1"])
def test_damaged_json_costs_only_its_session(tmp_path: Path, layout: str) -> None:
    path = write_store(tmp_path / "a.db", layout)
    write_store(path, layout, session="s2")
    column = "event_data" if layout == "v1" else "content"
    with closing(sqlite3.connect(path)) as store, store:
        store.execute(f"update events set {column} = '{{\"a' where session_id = 's2'")

    sessions = {session.id: session for session in read_store(path)}

    assert sessions["s1"].problem is None
    assert sessions["s2"].problem == f"events[0].{column}: found damaged JSON, expected the JSON that ADK writes"


def test_a_session_without_events(tmp_path: Path) -> None:
    (session,) = read_store(write_store(tmp_path / "a.db", "v1", []))

    assert session.problem == NO_USER_MESSAGE
    assert session.began is not None


def test_a_session_with_thousands_of_events(tmp_path: Path) -> None:
    events = [
        each
        for number in range(1500)
        for each in (
            event("user", text(f"question {number}"), invocation=f"i{number}"),
            event("home", text(f"answer {number}"), invocation=f"i{number}"),
        )
    ]

    (session,) = read_store(write_store(tmp_path / "a.db", "v1", events))

    assert len(session.turns) == 1500
    assert list_texts(session)[-1] == ("question 1499", "answer 1499")


def test_partial_events_are_not_repeated() -> None:
    session = read_events(
        event("user", text("hi")),
        event("home", text("Good "), partial=True),
        event("home", text("Good morning"), partial=False),
    )

    assert list_texts(session) == [("hi", "Good morning")]
    assert list_messages(session.turns[0]) == []


def test_undone_turns_are_left_out() -> None:
    session = read_events(
        event("user", text("one"), invocation="i1"),
        event("home", text("1"), invocation="i1"),
        event("user", text("two"), invocation="i2"),
        event("home", text("2"), invocation="i2", actions={"state_delta": {"count": 2}}),
        event("user", invocation="r", actions={"rewind_before_invocation_id": "i2", "state_delta": {"count": None}}),
        event("user", text("three"), invocation="i3"),
        event("home", text("3"), invocation="i3"),
    )

    assert list_texts(session) == [("one", "1"), ("three", "3")]
    assert session.notes[0] == "1 rewind: the turns that were undone are left out"
    assert session.state == {}


def test_a_summary_for_the_model_is_no_message() -> None:
    from google.adk.events.event_actions import EventCompaction
    from google.genai import types

    summary = types.Content(role="model", parts=[text("They said hi.")])
    compaction = EventCompaction(start_timestamp=1.0, end_timestamp=2.0, compacted_content=summary)
    session = read_events(
        event("user", text("hi"), invocation="i1"),
        event("home", text("hello"), invocation="i1"),
        event("user", text("They said hi."), invocation="c", actions={"compaction": compaction}),
        event("user", text("bye"), invocation="i2"),
        event("home", text("ciao"), invocation="i2"),
    )

    assert list_texts(session) == [("hi", "hello"), ("bye", "ciao")]


def test_the_answer_to_a_long_running_call_is_a_turn() -> None:
    session = read_events(
        event("user", text("buy it"), invocation="i1"),
        event("home", call("approve", price=5), invocation="i1", long_running_tool_ids={"approve"}),
        event("home", result("approve", status="pending"), invocation="i1"),
        event("home", text("Waiting for approval."), invocation="i1"),
        event("user", result("approve", status="approved"), invocation="i2"),
        event("home", text("Bought."), invocation="i2"),
    )

    assert list_texts(session) == [("buy it", "Waiting for approval."), ("", "Bought.")]
    assert get_trajectory(session.turns[0]) == [("approve", {"price": 5})]
    (answer,) = session.turns[1].user_content.parts or ()
    assert (answer.function_response.name, answer.function_response.response) == ("approve", {"status": "approved"})


def test_only_the_answer_to_a_long_running_call() -> None:
    session = read_events(event("user", result("approve", status="approved")))

    assert session.problem is not None
    assert session.problem.startswith("begins with the answer to a long-running call")


def test_what_an_agent_says_before_the_user() -> None:
    greeted = read_events(
        event("home", text("Welcome!")), event("user", text("hi"), invocation="i2"), event("home", text("hello"))
    )
    alone = read_events(event("home", text("Welcome!")))

    assert list_texts(greeted) == [("hi", "hello")]
    assert "what the agent said before the first message of the user is left out" in greeted.notes
    assert alone.problem == NO_USER_MESSAGE


def test_an_error_of_the_agent_is_no_response() -> None:
    session = read_events(
        event("user", text("hi"), invocation="i1"),
        event("home", invocation="i1", error_code="RESOURCE_EXHAUSTED"),
        event("user", text("hi?"), invocation="i2"),
        event("home", text("hello"), invocation="i2"),
    )

    assert list_texts(session) == [("hi", None), ("hi?", "hello")]
    assert session.notes[0] == "turn 1: the agent reported the error RESOURCE_EXHAUSTED"
    assert session.notes[1] == "no response is expected in turn 1: the agent gave none"


def test_binary_parts_of_an_answer_are_left_out() -> None:
    session = read_events(event("user", text("draw")), event("home", text("Here:"), image(b"png")))

    assert list_texts(session) == [("draw", "Here:")]
    assert "turn 1: binary data (image/png) of the agent is left out" in session.notes


def test_thoughts_are_no_response() -> None:
    from google.genai import types

    session = read_events(event("user", text("hi")), event("home", types.Part(text="hmm", thought=True), text("hello")))

    assert list_texts(session) == [("hi", "hello")]


def test_spoken_words_are_messages() -> None:
    from google.genai import types

    session = read_events(
        event("user", input_transcription=types.Transcription(text="hi")),
        event("home", output_transcription=types.Transcription(text="hello")),
    )

    assert list_texts(session) == [("hi", "hello")]


def test_two_messages_in_one_invocation_are_one() -> None:
    session = read_events(event("user", text("look at this")), event("user", image(b"png")), event("home", text("ok")))

    assert len(session.turns) == 1
    assert len(session.turns[0].user_content.parts or ()) == 2


def test_shared_state_is_named() -> None:
    session = read_events(
        *conversation(), state={"app:theme": "dark", "temp:x": 1, "__session_metadata__": {"displayName": "x"}}
    )

    assert session.state == {"app:theme": "dark", "language": "en"}
    assert "state shared by sessions has its present value: app:theme" in session.notes


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        (["text"], "events[0]: found text, expected an event"),
        ([{"author": "user", "content": "hi"}], "content of an event: found text, expected an object with parts"),
        ([{"author": "user", "content": {"parts": [{"text": 5}]}}], "content.parts.0.text: Input should be a valid"),
    ],
)
def test_an_invalid_event(events: list[Any], problem: str) -> None:
    session = read_adk_session({"id": "s", "appName": "home", "events": events})

    assert session.problem is not None
    assert session.problem.startswith(problem)


@pytest.mark.parametrize("value", [None, True, "soon", float("nan"), 1e300, []])
def test_what_is_no_time(value: Any) -> None:
    assert parse_time(value) is None
