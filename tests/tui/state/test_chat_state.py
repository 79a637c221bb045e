"""The state of the chat: conversations from their events, prompts, cursor, names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from workbench.model.evalset import Content, SessionInput
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus, Failure, FailureKind, TurnResult
from workbench.model.run_events import ChatEnded, StateSeen, StepSeen, TurnAnswered, TurnBegan, TurnFailed
from workbench.model.target import AgentKind, Target
from workbench.model.trace import Span, SpanKind
from workbench.store.project_discovery import NewSets, Project
from workbench.tui.state.browser_list import ListedSet
from workbench.tui.state.chat_state import (
    ChatLines,
    ChatPhase,
    Conversation,
    TargetChat,
    check_new_case_id,
    format_status,
    list_save_locations,
    parse_state,
    problem_of_set_name,
    propose_case_id,
    propose_set_name,
    warning_of_set_name,
)
from workbench.tui.state.text_layout import Line

ROOT = Path("/project")
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
NASTY = "[/b] \x1b[31mred \u202egnp 🕯️ 卧室 e\u0301"


def said(text: str) -> Content:
    return Content.of_text(text, role="user")


def conversation(*prompts: str, state: dict[str, Any] | None = None) -> Conversation:
    made = Conversation("home", 1, SessionInput(app_name="home", user_id="me", state=state or {}))
    for prompt in prompts:
        made.add_message(said(prompt))
    return made


def began(turn: int, text: str) -> TurnBegan:
    return TurnBegan(turn=turn, content=said(text), at=AT)


def answered(turn: int, response: str, *, data: dict[str, Any] | None = None, **more: Any) -> TurnAnswered:
    invocation: dict[str, Any] = {
        "user_content": {"role": "user", "parts": [{"text": "x"}]},
        "final_response": {"role": "model", "parts": [{"text": response}]},
        "intermediate_data": data,
    }
    result = TurnResult.model_validate({"invocation": invocation, "duration_seconds": 0.5, **more})
    return TurnAnswered(turn=turn, result=result)


def tool(name: str, *, end: float | None, id: str = "t", **more: Any) -> StepSeen:
    return StepSeen(span=Span(id=id, kind=SpanKind.TOOL, name=name, start=0.1, end=end, request={"id": 1}, **more))


def take(made: Conversation, *events: Any) -> Conversation:
    for event in events:
        made.apply(event, now=10.0)
    return made


def text_of(lines: list[Line]) -> str:
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def shown(made: Conversation, width: int = 80) -> str:
    return text_of(ChatLines(made).make_lines(width))


def standing(chat: TargetChat, now: float = 12.0) -> str:
    return text_of([format_status(chat, now=now)])


def failed(turn: int, **more: Any) -> TurnFailed:
    fields = {"status": CaseStatus.ERROR, "failure": Failure(kind=FailureKind.AGENT, message="ValueError: no")}
    return TurnFailed(turn=turn, duration_seconds=1.0, **{**fields, **more})


def test_a_tool_call_is_shown_while_it_is_at_work_and_when_it_has_come_back() -> None:
    made = take(conversation("on"), began(0, "on"), tool("set_device", end=None))
    at_work = shown(made)
    take(made, tool("set_device", end=0.4, response={"status": "ok"}))

    assert "→ set_device  id=1" in at_work and "… running" in at_work
    assert '← {"status": "ok"}' in shown(made) and "… running" not in shown(made)


def test_an_answered_turn_shows_everything_in_its_order() -> None:
    events = [
        {"author": "root", "content": {"parts": [{"text": "let me see"}]}},
        {"author": "root", "content": {"parts": [{"function_call": {"id": "1", "name": "roll", "args": {"n": 6}}}]}},
        {"author": "root", "content": {"parts": [{"function_response": {"id": "1", "response": {"r": 4}}}]}},
        {"author": "helper", "content": {"parts": [{"text": "thinking", "thought": True}, {"text": "four it is"}]}},
    ]  # fmt: skip
    made = take(conversation("roll"), began(0, "roll"), tool("roll", end=None))
    take(
        made, answered(0, "You rolled 4.", data={"invocation_events": events}, inference_calls=2, usage={"total": 1234})
    )

    text = shown(made)

    wanted = [
        "roll",
        "root",
        "let me see",
        "→ roll  n=6",
        '← {"r": 4}',
        "helper",
        "four it is",
        "home",
        "You rolled 4.",
    ]
    places = [text.index(item) for item in wanted]
    assert places == sorted(places)
    assert "thinking" not in text
    assert "0.50 s · 1,234 tokens · 2 model calls" in text


def test_an_error_shows_its_message_traceback_and_stderr_without_secrets() -> None:
    library = 'File "/venv/lib/python3.11/site-packages/google/adk/runners.py", line 5, in run'
    traceback = f'Traceback: api_key=abcdefghij\n  {library}\n  File "/home/me/agent.py", line 3, in look_up'
    failure = Failure(kind=FailureKind.CRASH, message="it died", traceback=traceback, stderr_tail="last words")
    made = take(conversation("x"), began(0, "x"), tool("slow", end=None), failed(0, failure=failure))

    text = shown(made)

    assert "! crash error  it died" in text and "last words" in text and "did not return" in text
    assert "… 1 frame in google.adk" in text and "runners.py" not in text and "look_up" in text
    assert "abcdefghij" not in text


def test_text_from_outside_is_shown_and_never_obeyed() -> None:
    made = take(conversation(NASTY), began(0, NASTY), tool(NASTY, end=0.2, response=NASTY), answered(0, NASTY))

    text = shown(made, width=40)

    assert "\x1b" not in text and "\u202e" not in text
    assert "[/b]" in text and "卧" in text


def test_what_is_long_is_shortened_and_says_so() -> None:
    made = take(
        conversation("x"), began(0, "x"), tool("big", end=1.0, response="y" * 200_000), answered(0, "z" * 200_000)
    )
    take(
        made,
        began(1, "x"),
        StepSeen(span=tool("big", end=1.0, response="y" * 200_000).span.model_copy(update={"turn": 1})),
    )

    text = shown(made)

    assert "180,000 more characters not shown" in text
    assert "more characters in the trace" in text
    assert len(text) < 60_000


def test_of_thousands_of_steps_the_newest_are_shown_and_then_the_first() -> None:
    made = take(conversation("x"), began(0, "x"), *(tool(f"tool{n}", end=1.0, id=str(n)) for n in range(5_000)))
    live = shown(made)
    calls = [{"name": f"tool{n}", "args": {}} for n in range(1_000)]
    take(made, answered(0, "done", data={"tool_uses": calls}))

    assert "4,600 earlier steps" in live and "tool4999" in live and "tool4599 " not in live
    assert "600 more steps" in shown(made) and "tool399" in shown(made) and "tool400" not in shown(made)


def test_only_what_changed_is_laid_out_again() -> None:
    made = take(conversation("a", "b"), began(0, "a"), answered(0, "A"), began(1, "b"))
    lines = ChatLines(made)
    first = lines.make_lines(80)
    take(made, answered(1, "B"))

    again = lines.make_lines(80)

    assert again[0] is first[0] and "B" in text_of(again) and "B" not in text_of(first)
    second = lines.find_first_line(1, 80)
    assert (
        lines.find_turn(second, 80) == 1 and lines.find_turn(second - 1, 80) == 0 and lines.find_turn(999, 80) is None
    )


def test_how_it_stands_is_said_at_every_point() -> None:
    chat = TargetChat("home")
    assert "no session yet" in standing(chat)
    made = conversation("a", "b")
    chat.start(made)
    take(made, began(0, "a"))
    assert "2.0 s  waiting for the agent · 1 turn to follow" in standing(chat)
    take(made, tool("set_device", end=None))
    assert "set_device" in standing(chat)
    take(made, answered(0, "A", usage={"prompt": 3, "candidates": 4}), StateSeen(turn=0, state={}), began(1, "b"))
    take(made, answered(1, "B"))
    assert standing(chat).strip() == "2 turns · 7 tokens · 1.00 s"
    take(made, ChatEnded(failure=Failure(kind=FailureKind.CRASH, message="it died")))
    assert standing(chat).strip() == "! the session is over"
    assert "! crash error  it died" in shown(made) and "enter says the 2 answered turns again" in shown(made)
    chat.problem = "api_key=abcdefghij is wrong"
    assert "[redacted]" in standing(chat)


def test_a_turn_that_failed_is_in_the_input_again_unless_something_else_is() -> None:
    made = take(conversation("a"), began(0, "a"), failed(0, status=CaseStatus.CANCELLED, failure=None), ChatEnded())
    chat = TargetChat("home")
    chat.start(made)

    assert made.turns[0].phase is ChatPhase.CANCELLED and not made.is_busy
    assert chat.restore_draft(made.turns[0]) and chat.draft == "a"
    chat.draft = "typed meanwhile"
    assert not chat.restore_draft(made.turns[0]) and chat.draft == "typed meanwhile"


def test_what_is_said_again_where_a_session_starts_again() -> None:
    made = take(conversation("a", "b", "c"), began(0, "a"), answered(0, "A"), began(1, "b"), failed(1))
    take(made, ChatEnded(unsaid=(said("c"),)))
    chat = TargetChat("home")
    chat.start(made)

    assert [content.text() for content in chat.list_all_messages()] == ["a", "b", "c"]
    assert [content.text() for content in chat.list_answered_messages()] == ["a"]


def test_the_result_of_a_chat_is_what_a_case_would_have_left() -> None:
    made = take(conversation("a", "b", state={"n": 0}), began(0, "a"), tool("t", end=None), tool("t", end=0.3))
    take(
        made, answered(0, "A"), StateSeen(turn=0, state={"n": 1}), began(1, "b"), failed(1), ChatEnded(stderr_tail="!")
    )

    result = made.make_result()

    assert result.case == CaseKey(target="home", eval_set="", eval_id="chat 1")
    assert result.status is CaseStatus.NOT_EVALUATED
    assert [span.end for span in result.execution.spans] == [0.3]
    assert result.execution.final_state == {"n": 1} and result.execution.stderr_tail == "!"
    assert result.failure is not None and result.duration_seconds == 1.5
    assert (made.find_state_before_turn(0), made.find_state_before_turn(1)) == ({"n": 0}, {"n": 1})


def test_prompts_are_brought_back_and_what_was_typed_with_them() -> None:
    prompts = TargetChat("home").prompts
    for text in ("one", "two", "one"):
        prompts.add(text)

    assert [prompts.show_previous("typed"), prompts.show_previous("one"), prompts.show_previous("two")] == [
        "one",
        "two",
        None,
    ]
    assert [prompts.show_next("two"), prompts.show_next("one"), prompts.show_next("typed")] == ["one", "typed", None]


def test_the_cursor_moves_from_turn_to_turn_and_leaves_behind_the_last() -> None:
    chat = TargetChat("home")
    chat.move_cursor(-1)
    assert chat.chosen is None
    chat.start(take(conversation("a", "b"), began(0, "a"), answered(0, "A"), began(1, "b"), answered(1, "B")))

    seen: list[Any] = []
    for by in (-1, -1, -1, 1, 1):
        chat.move_cursor(by)
        seen.append(chat.chosen)

    assert seen == [1, 0, 0, 1, None]


def test_only_what_was_not_kept_is_lost_with_a_session() -> None:
    chat = TargetChat("home")
    chat.start(take(conversation("a"), began(0, "a"), answered(0, "A")))
    assert chat.unsaved_turns == 1
    chat.saved_turns = 1
    assert chat.unsaved_turns == 0
    chat.discard()
    assert chat.unsaved_turns == 0 and not chat.has_begun


SETS = [
    ListedSet("b/x.evalset.json", "other"),
    ListedSet("a/y.evalset.json", "home"),
    ListedSet("a/z.test.json", "home"),
]


def test_the_nearest_place_for_a_case_comes_first() -> None:
    here = CaseKey(target="home", eval_set="a/z.test.json", eval_id="c")

    assert [item.label for item in list_save_locations(SETS, target="home", eval_set="a/z.test.json", case=here)] == [
        "in a/z.test.json",
        "replacing the case c",
        "in a/y.evalset.json",
        "in a new eval set",
        "in b/x.evalset.json · of other",
    ]
    assert list_save_locations([], target="home", eval_set=None, case=None)[0].eval_set is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a/new.evalset.json", None),
        ("new.test.json", None),
        ("a/y.evalset.json", "already"),
        ("new.json", "ends in"),
        ("/etc/new.evalset.json", "inside the project"),
        ("a/../../new.evalset.json", "inside the project"),
        ("a/new set.evalset.json", "letters, digits"),
        (".evalset.json", "letters, digits"),
    ],
)
def test_the_name_of_a_new_set_is_checked(name: str, problem: str | None) -> None:
    found = problem_of_set_name(name, sets=SETS)

    assert (found is None) if problem is None else (found is not None and problem in found)


def places(**eval_sets: Sequence[str]) -> NewSets:
    """Return the sets that can be created in a project with these targets and eval-set patterns."""
    targets = {
        name: Target(name=name, kind=AgentKind.FUNCTION, location="agent:f", path=ROOT, eval_sets=tuple(patterns))
        for name, patterns in eval_sets.items()
    }
    return NewSets(Project(root=ROOT, targets=targets, eval_sets=()))


def test_names_are_proposed_that_are_free() -> None:
    anywhere = places(home=["**/*.json"])
    used = [*SETS, ListedSet("a/chats.evalset.json", "home")]

    assert propose_set_name(SETS, target="home", places=anywhere) == "a/chats.evalset.json"
    assert propose_set_name(used, target="home", places=anywhere) == "a/chats_2.evalset.json"
    assert propose_set_name([], target="home", places=anywhere) == "chats.evalset.json"
    assert propose_case_id({"chat_1"}) == "chat_2"


@pytest.mark.parametrize(
    ("patterns", "proposed"),
    [
        (["a/y.evalset.json", "a/kept_*.evalset.json"], "a/kept_chats.evalset.json"),
        (["a/?.*.json", "a/*.test.json"], "a/chats.test.json"),
        (["a/y.evalset.json", "c/*.json"], "c/chats.evalset.json"),
        (["a/y.evalset.json", "c/new.evalset.json"], "c/new.evalset.json"),
        (["a/y.evalset.json", "a/z.test.json"], "a/chats.evalset.json"),  # a new file cannot belong to the agent
    ],
)
def test_a_new_set_is_proposed_where_the_settings_of_its_agent_find_it(patterns: list[str], proposed: str) -> None:
    assert propose_set_name(SETS, target="home", places=places(other=["b/*"], home=patterns)) == proposed


def test_a_name_that_makes_a_set_of_another_agent_or_of_none_is_warned_of() -> None:
    project = places(other=["b/*"], home=["a/*"])

    assert warning_of_set_name("a/new.evalset.json", target="home", places=project) is None
    other = warning_of_set_name("b/new.evalset.json", target="home", places=project)
    assert other == "it will belong to the agent other: workbench.toml does not list it under eval_sets of home"
    nobody = warning_of_set_name("new.evalset.json", target="home", places=project)
    assert nobody == "it will belong to no agent: workbench.toml does not list it under eval_sets of home"


@pytest.mark.parametrize(
    ("eval_id", "problem"),
    [
        ("灯_1", None),
        ("", "needs"),
        (" x", "blanks"),
        ("a\nb", "invisible characters"),
        ("x" * 201, "200"),
        ("taken", "already"),
    ],
)
def test_the_id_of_a_new_case_is_checked(eval_id: str, problem: str | None) -> None:
    found = check_new_case_id(eval_id, taken={"taken"})

    assert (found is None) if problem is None else (found is not None and problem in found)


@pytest.mark.parametrize(
    ("text", "state", "problem"),
    [
        ("", {}, ""),
        ('{"a": [1, null]}', {"a": [1, None]}, ""),
        ('{"a": 1,}', {}, "line 1, column"),
        ("[1]", {}, "expected an object"),
        ('{"a": NaN}', {}, "NaN"),
        ("[" * 100_000, {}, "nested too deeply"),
    ],
)
def test_the_initial_state_is_read_as_it_is_typed(text: str, state: dict[str, Any], problem: str) -> None:
    found = parse_state(text)

    assert found[0] == state and problem in found[1] and bool(found[1]) == bool(problem)


def test_a_call_that_was_simulated_says_so_at_work_and_afterwards() -> None:
    marked: dict[str, Any] = {"attributes": {"workbench.simulated": "model"}}
    made = take(conversation("on"), began(0, "on"), tool("set_device", end=0.4, response={}, **marked))
    assert "→ set_device  id=1  (simulated: model)" in shown(made)

    take(made, answered(0, "done", data={"tool_uses": [{"name": "set_device", "args": {"id": 1}}]}))

    assert "→ set_device  id=1  (simulated: model)" in shown(made)
