"""Sessions as cases: kinds of files, filters, redaction, and what is kept."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.store.datasets.adk_stores import event, text, write_store
from workbench.engine.plan import PlanError
from workbench.engine.session_import import (
    Redaction,
    Redactor,
    SessionFilter,
    compile_pattern,
    describe_redactions,
    find_sessions,
    get_first_message,
    keep_sessions,
    open_source,
    open_sources,
    parse_since,
)
from workbench.model.evalset import EvalCase
from workbench.model.trace import get_trajectory
from workbench.store.datasets.adk_sessions import SourceSession, read_adk_session
from workbench.store.errors import StoreError
from workbench.store.evalsets.new_evalsets import open_or_make_set

KEY = "AIzaSyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
MESSAGES = [
    {"role": "user", "content": "light on"},
    {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "set_light", "arguments": '{"on": true}'}}]},
    {"role": "tool", "tool_call_id": "1", "content": "{}"},
    {"role": "assistant", "content": "It is on."},
]


def export(number: int = 1, *, prompt: str = "hi", user: str = "ann", **changes: Any) -> dict[str, Any]:
    """Return a session as `adk web` exports it."""
    said = [
        {"author": author, "invocationId": "i1", "content": {"parts": [{"text": words}]}, "timestamp": 1e9 + number}
        for author, words in (("user", prompt), ("home", f"answer {number}"))
    ]
    return {"id": f"s{number}", "appName": "home", "userId": user, "state": {}, "events": said, **changes}


def read(path: Path, content: Any, **wanted: Any) -> list[SourceSession]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return [*find_sessions([open_source(path)], SessionFilter(**wanted))]


# What a file is


@pytest.mark.parametrize(
    ("name", "content", "kind", "ids"),
    [
        ("a.json", export(), "sessions of ADK", ["s1"]),
        ("a.json", [export(1), export(2)], "sessions of ADK", ["s2", "s1"]),
        ("a.jsonl", f"{json.dumps(export(1))}\n\n{json.dumps(export(2))}\n", "sessions of ADK", ["s2", "s1"]),
        ("chat.json", MESSAGES, "lists of messages", ["chat"]),
        ("chat.json", [MESSAGES, MESSAGES], "lists of messages", ["chat_1", "chat_2"]),
        ("chat.json", [{"eval_id": "a", "messages": MESSAGES}], "lists of messages", ["a"]),
        ("chat.jsonl", f"{json.dumps(MESSAGES)}\n{json.dumps({'messages': MESSAGES})}", "lists of messages",
         ["chat_1", "chat_2"]),
        ("chat.csv", 'eval_id,messages\nb,"' + json.dumps(MESSAGES).replace('"', '""') + '"\n', "lists of messages",
         ["b"]),
    ],
)  # fmt: skip
def test_the_kind_of_a_file_is_in_its_content(tmp_path: Path, name: str, content: Any, kind: str, ids: Any) -> None:
    sessions = read(tmp_path / name, content)

    assert open_source(tmp_path / name).kind == kind
    assert [session.id for session in sessions] == ids
    assert all(session.problem is None for session in sessions)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "", "a.json: found an empty file, expected a session store or session of ADK"),
        ("a.json", "hello", "a.json: found a file that is neither JSON nor SQLite, expected"),
        ("a.json", '{"id": 1, ', "a.json:1:11: found "),
        ("a.json", '{"songs": []}', "a.json: found an object with songs, expected"),
        ("a.json", "[]", "a.json: found no sessions, expected"),
        ("a.json", '{"eval_set_id": "a", "eval_cases": []}', "a.json: found an eval set, expected"),
        ("a.json", '{"resourceSpans": [{"scopeSpans": 5}]}', "a.json: resourceSpans[0]: found"),
        ("a.jsonl", '{"a": 1}\n{"b": \n{}\n', "a.jsonl:2:7: found damaged JSON, expected one JSON value a line"),
        ("a.jsonl", '{"a": ', "a.jsonl:1:7: found damaged JSON"),
        ("a.csv", "x,y\n1,2\n", "a.csv: found rows with x, y, expected a column messages"),
    ],
)
def test_a_file_without_sessions(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(StoreError) as error:
        read(tmp_path / name, content)

    assert str(error.value).removeprefix(f"{tmp_path}/").startswith(message)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read it: there is no such file"):
        open_source(tmp_path / "a.json")
    with pytest.raises(StoreError, match="found a folder, expected a file"):
        open_source(tmp_path)


def test_json_lines_need_no_ending(tmp_path: Path) -> None:
    sessions = read(tmp_path / "a.json", f"{json.dumps(export(1))}\n{json.dumps(export(2))}\n")

    assert [session.id for session in sessions] == ["s2", "s1"]


def write_observations(path: Path, *numbers: int) -> Path:
    """Write some observations of one trace: model, tool, model."""
    inputs = [MESSAGES[:1], {"on": True}, MESSAGES[:3]]
    outputs = [MESSAGES[1], {}, MESSAGES[3]]
    rows = [
        {
            "id": f"o{number}",
            "traceId": "t1",
            "sessionId": "s1",
            "userId": "ann",
            "type": "TOOL" if number == 1 else "GENERATION",
            "name": "set_light",
            "startTime": f"2026-03-01T10:00:0{number}Z",
            "endTime": f"2026-03-01T10:00:0{number}.500Z",
            "input": inputs[number],
            "output": outputs[number],
        }
        for number in numbers
    ]
    path.write_text(json.dumps(rows))
    return path


def test_traces_may_have_parts_in_several_files(tmp_path: Path) -> None:
    paths = [write_observations(tmp_path / "a.json", 0, 1), write_observations(tmp_path / "b.json", 1, 2)]

    (session,) = find_sessions(open_sources(paths), SessionFilter())

    assert [call.name for call in get_trajectory(session.turns[0])] == ["set_light"]
    assert session.turns[0].final_response is not None


def test_the_newest_sessions_of_all_files(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    paths[0].write_text(json.dumps([export(1), export(3)]))
    paths[1].write_text(json.dumps([export(2), export(4)]))

    found = find_sessions(open_sources(paths), SessionFilter(limit=3))

    assert [session.id for session in found] == ["s4", "s3", "s2"]


def test_half_a_surrogate_pair_does_not_refuse_a_file(tmp_path: Path) -> None:
    sessions = read(tmp_path / "a.json", [export(1, prompt="a\ud800b"), export(2)])

    assert [session.id for session in sessions] == ["s2", "s1"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="pipes have no paths here")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        file.write(json.dumps(export()))
    try:
        (session,) = open_source(Path(f"/dev/fd/{reading}")).find_sessions(SessionFilter())
    finally:
        os.close(reading)

    assert session.id == "s1"


def test_messages_do_not_suggest_what_is_redacted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(export(id="ann@x.org")))
    redactor = Redactor([compile_pattern(r"\w+@x.org")])

    with pytest.raises(PlanError) as error:
        next(find_sessions([open_source(path)], SessionFilter(ids=("an@x.org",)), redactor))

    assert str(error.value) == "--session an@x.org: no such session"


def test_the_problem_of_a_session_is_redacted() -> None:
    session = SourceSession(id="s1", problem=f"found {KEY}")

    assert Redactor().redact_session(session)[0].problem == "found [redacted]"


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    sessions = read(tmp_path / "a.jsonl", f'{json.dumps(export())}\n{{"id": "s2", "ev')

    assert [session.id for session in sessions] == ["s1"]
    assert open_source(tmp_path / "a.jsonl").notes == ["line 2 is left out: it is not complete"]


def test_rows_that_cannot_be_read_have_a_problem(tmp_path: Path) -> None:
    rows = [{"eval_id": "a", "messages": MESSAGES}, {"eval_id": "b", "messages": [{"role": "robot"}]}]

    good, bad = read(tmp_path / "a.json", rows)

    assert good.problem is None
    assert bad.problem is not None


# Filters


@pytest.mark.needs_adk
@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({}, ["s2", "s1", "s3"]),
        ({"ids": ("s3",)}, ["s3"]),
        ({"users": ("bob",)}, ["s2"]),
        ({"contains": ("LIGHT",)}, ["s1"]),
        ({"contains": ("light", "the light is")}, ["s1"]),
        ({"tools": ("find", "other")}, ["s1"]),
        ({"since": datetime(2100, 1, 1, tzinfo=UTC)}, []),
        ({"limit": 2}, ["s2", "s1"]),
        ({"limit": 1, "users": ("ann",)}, ["s1"]),
    ],
)
def test_filters(tmp_path: Path, wanted: dict[str, Any], ids: list[str]) -> None:
    path = write_store(tmp_path / "a.db", "service", [event("user", text("hi"))], session="s3", user="eve")
    write_store(path, "service")
    write_store(path, "service", [event("user", text("bye"))], session="s2", user="bob")

    assert [session.id for session in find_sessions([open_source(path)], SessionFilter(**wanted))] == ids


def test_a_session_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"--session s11: no such session; did you mean 's1'\?"):
        read(tmp_path / "a.json", export(), ids=("s11",))
    with pytest.raises(PlanError, match="--session s1: it does not match the other filters"):
        read(tmp_path / "a.json", export(), ids=("s1",), contains=("nothing",))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-03-01", "2026-03-01T00:00:00+00:00"),
        ("2026-03-01T09:30:00+01:00", "2026-03-01T08:30:00+00:00"),
        ("7d", "2026-03-03T12:00:00+00:00"),
        ("90m", "2026-03-10T10:30:00+00:00"),
    ],
)
def test_since(given: str, expected: str) -> None:
    assert parse_since(given, now=datetime(2026, 3, 10, 12, tzinfo=UTC)).isoformat() == expected


@pytest.mark.parametrize("given", ["", "yesterday", "7", "999999w", "2026-13-01"])
def test_what_is_no_time(given: str) -> None:
    with pytest.raises(ValueError, match="expected a date"):
        parse_since(given, now=datetime(2026, 3, 10, tzinfo=UTC))


# Redaction


def test_secrets_and_patterns_are_replaced_and_named() -> None:
    session = read_adk_session(
        export(prompt=f"I am ann@example.org, key {KEY}", user="ann@example.org", state={"api_key": "hunter2", "n": 1})
    )

    redacted, found = Redactor([compile_pattern(r"\w+@\w+\.org")]).redact_session(session)

    assert get_first_message(redacted) == "I am [redacted], key [redacted]"
    assert redacted.user == "[redacted]"
    assert redacted.state == {"api_key": "[redacted]", "n": 1}
    assert set(found) == {
        Redaction("turn 1, message", r"\w+@\w+\.org", 1),
        Redaction("turn 1, message", "secret", 1),
        Redaction("user", r"\w+@\w+\.org", 1),
        Redaction("state", "secret", 1),
    }
    assert "secret (turn 1, message)" in describe_redactions(found)
    assert get_first_message(session).endswith(KEY)


def test_binary_data_is_not_redacted() -> None:
    data = f"AAAA{KEY}"
    part = {"inlineData": {"data": data, "mimeType": "image/png"}}
    session = read_adk_session(export(events=[{"author": "user", "content": {"parts": [part]}}]))

    redacted, found = Redactor([compile_pattern("A+")]).redact_session(session)

    assert redacted.turns[0].user_content.model_dump()["parts"][0]["inlineData"]["data"] == data
    assert not [each for each in found if each.place == "turn 1, message" and each.what == "secret"]


def test_patterns_apply_to_numbers() -> None:
    session = read_adk_session(export(state={"account": 5551234567, "ratio": 0.5, "on": True}))

    redacted, found = Redactor([compile_pattern(r"\b\d{10}\b")]).redact_session(session)

    assert redacted.state == {"account": "[redacted]", "ratio": 0.5, "on": True}
    assert [each for each in found if each.place == "state"] == [Redaction("state", r"\b\d{10}\b", 1)]


def test_an_argument_is_redacted_whatever_its_name() -> None:
    call = {"functionCall": {"name": "send", "args": {"inline_data": {"data": KEY}}}}
    events = [{"author": "user", "content": {"parts": [{"text": "hi"}]}}, {"author": "a", "content": {"parts": [call]}}]

    redacted, _ = Redactor().redact_session(read_adk_session(export(events=events)))

    assert KEY not in json.dumps([turn.model_dump(mode="json") for turn in redacted.turns])


@pytest.mark.parametrize("pattern", ["(", "x*", ""])
def test_a_pattern_that_cannot_redact(pattern: str) -> None:
    with pytest.raises(ValueError, match="found "):
        compile_pattern(pattern)


# Keeping


def keep(path: Path, *sessions: SourceSession, patterns: tuple[str, ...] = ()) -> list[tuple[str | None, bool]]:
    document = open_or_make_set(path)
    kept = keep_sessions(document, sessions, Redactor([re.compile(each) for each in patterns]))
    if document.is_dirty:
        document.save()
    return [(each.eval_id, each.is_added) for each in kept]


def read_cases(path: Path) -> list[Any]:
    cases: list[Any] = json.loads(path.read_text())["eval_cases"]
    return cases


def test_many_sessions_are_added_in_one_edit(tmp_path: Path) -> None:
    document = open_or_make_set(tmp_path / "new.evalset.json")

    keep_sessions(document, [read_adk_session(export(number)) for number in range(300)], Redactor())

    assert document.steps_done == 1
    assert [entry.eval_id for entry in document.entries] == [f"s{number}" for number in range(300)]
    assert document.errors == []


def test_a_case_expects_what_happened(tmp_path: Path) -> None:
    path = tmp_path / "new.evalset.json"
    (session,) = read(tmp_path / "a.json", [{"eval_id": "a b:c", "messages": MESSAGES}])

    assert [name and name[:6] for name, _ in keep(path, session)] == ["a_b_c_"]

    (case,) = read_cases(path)
    (turn,) = case["conversation"]
    assert turn["user_content"]["parts"] == [{"text": "light on"}]
    assert turn["intermediate_data"]["tool_uses"] == [{"name": "set_light", "args": {"on": True}}]
    assert turn["final_response"]["parts"] == [{"text": "It is on."}]
    assert case["session_input"] == {"app_name": tmp_path.name, "user_id": "test_user_id", "state": {}}
    EvalCase.model_validate(case)


@pytest.mark.needs_adk
def test_adk_reads_the_cases(tmp_path: Path) -> None:
    from google.adk.evaluation.eval_set import EvalSet

    source = write_store(tmp_path / "a.db", "v1")
    path = tmp_path / "new.evalset.json"
    keep(path, *find_sessions([open_source(source)], SessionFilter()))

    (case,) = EvalSet.model_validate_json(path.read_text()).eval_cases

    assert case.session_input is not None
    assert case.session_input.state == {"room": "kitchen", "language": "en"}
    turns = case.conversation or []
    assert (turns[1].user_content.parts or [])[1].inline_data.data == b"\xff\xfe\x00"


def test_a_session_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "new.evalset.json"
    session = read_adk_session(export())
    assert keep(path, session, session) == [("s1", True), ("s1", False)]
    before = path.read_bytes()

    assert keep(path, session) == [("s1", False)]
    assert path.read_bytes() == before


def test_equal_ids_of_other_users_are_other_sessions(tmp_path: Path) -> None:
    path = tmp_path / "new.evalset.json"
    ann, bob = read_adk_session(export()), read_adk_session(export(user="bob"))

    assert keep(path, ann, bob) == [("s1", True), ("s1_2", True)]
    assert keep(path, bob, ann) == [("s1_2", False), ("s1", False)]


def test_sessions_that_look_the_same_after_redaction_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "new.evalset.json"
    sessions = [
        read_adk_session(export(user=user, id=session_id))
        for user, session_id in (("ann@x.org", "s1"), ("bob@x.org", "s1"), ("eve", "ann@x.org"), ("eve", "bob@x.org"))
    ]

    kept = keep(path, *sessions, patterns=(r"\w+@x.org",))

    assert [is_added for _, is_added in kept] == [True] * 4
    assert len({name for name, _ in kept}) == 4
    assert "ann@" not in path.read_text()
    again = keep(path, *reversed(sessions), patterns=(r"\w+@x.org",))
    assert again == [(name, False) for name, _ in reversed(kept)]


def test_ids_that_look_the_same_without_unfit_characters_are_different(tmp_path: Path) -> None:
    path = tmp_path / "new.evalset.json"
    sessions = [read_adk_session(export(id=each)) for each in ("a/b", "a_b", "a b")]

    kept = [keep(path, session)[0] for session in sessions]

    assert [is_added for _, is_added in kept] == [True] * 3
    assert kept[1][0] == "a_b"
    assert keep(path, *sessions) == [(name, False) for name, _ in kept]


def test_sessions_without_ids_are_the_same_only_if_the_user_says_the_same(tmp_path: Path) -> None:
    path, source = tmp_path / "new.evalset.json", tmp_path / "chats.json"

    def import_messages(*messages: str) -> list[tuple[str | None, bool]]:
        source.write_text(json.dumps([[{"role": "user", "content": text}] for text in messages]))
        return keep(path, *open_source(source).find_sessions(SessionFilter()), patterns=(r"\d\d",))

    assert import_messages("light 12", "door") == [("chats_1", True), ("chats_2", True)]
    assert import_messages("window 77", "door") == [("chats_1_2", True), ("chats_2", False)]
    assert import_messages("window 77", "light 12") == [("chats_1_2", False), ("chats_2_2", True)]
    assert import_messages("light 12", "door") == [("chats_1", False), ("chats_2", False)]


def test_unknown_fields_and_the_form_of_a_set_stay(tmp_path: Path) -> None:
    path = tmp_path / "old.evalset.json"
    events = [{"author": "home", "content": {"parts": [{"text": "hm"}]}}]
    turn = {"user_content": {"parts": [{"text": "x"}]}, "intermediate_data": {"invocation_events": events}}
    text = json.dumps(
        {"eval_set_id": "old", "mine": {"b": 1}, "eval_cases": [{"eval_id": "a", "conversation": [turn]}]}
    )
    path.write_text(text)
    (session,) = read(tmp_path / "a.json", MESSAGES)

    keep(path, session)

    assert path.read_text().startswith(text[: text.index('"eval_cases"')])
    added = read_cases(path)[1]["conversation"][0]["intermediate_data"]["invocation_events"]
    assert added[0]["content"]["parts"] == [{"function_call": {"name": "set_light", "args": {"on": True}}}]


def test_a_session_without_a_turn_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.evalset.json"

    assert keep(path, read_adk_session(export(events=[]))) == [(None, False)]
    assert not path.exists()


def test_lone_surrogates_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "new.evalset.json"

    assert keep(path, read_adk_session(export(prompt="a\ud800b"))) == [("s1", True)]
    assert "a" in read_cases(path)[0]["conversation"][0]["user_content"]["parts"][0]["text"]
