"""The state of the chat: conversations from their events, prompts, cursor, names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from workbench.engine.chat_session import ChatBranch
from workbench.model.evalset import Content, SessionInput
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus, Failure, FailureKind, TurnResult
from workbench.model.run_events import ChatEnded, StateSeen, StepSeen, TurnAnswered, TurnBegan, TurnFailed
from workbench.model.trace import Span, SpanKind
from workbench.tui.backend.document_calls import ExpectedTurns
from workbench.tui.state.browser_list import ListedSet
from workbench.tui.state.chat_state import (
    BranchOrigin,
    ChatConversation,
    ChatLines,
    ChatPhase,
    TargetChat,
    check_new_case_id,
    format_status,
    list_save_locations,
    parse_state,
    propose_case_id,
)
from workbench.tui.state.text_layout import Line

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
NASTY = "[/b] \x1b[31mred \u202egnp 🕯️ 卧室 e\u0301"


def make_message(text: str) -> Content:
    return Content.of_text(text, role="user")


def make_conversation(*prompts: str, state: dict[str, Any] | None = None) -> ChatConversation:
    conversation = ChatConversation("home", 1, SessionInput(app_name="home", user_id="me", state=state or {}))
    for prompt in prompts:
        conversation.add_message(make_message(prompt))
    return conversation


def make_turn_begin(turn: int, text: str) -> TurnBegan:
    return TurnBegan(turn=turn, content=make_message(text), at=AT)


def make_turn_answer(turn: int, response: str, *, data: dict[str, Any] | None = None, **more: Any) -> TurnAnswered:
    invocation: dict[str, Any] = {
        "user_content": {"role": "user", "parts": [{"text": "x"}]},
        "final_response": {"role": "model", "parts": [{"text": response}]},
        "intermediate_data": data,
    }
    result = TurnResult.model_validate({"invocation": invocation, "duration_seconds": 0.5, **more})
    return TurnAnswered(turn=turn, result=result)


def make_tool_step(name: str, *, end: float | None, id: str = "t", **more: Any) -> StepSeen:
    return StepSeen(span=Span(id=id, kind=SpanKind.TOOL, name=name, start=0.1, end=end, request={"id": 1}, **more))


def apply_events(conversation: ChatConversation, *events: Any) -> ChatConversation:
    for event in events:
        conversation.apply(event, now=10.0)
    return conversation


def join_lines(lines: list[Line]) -> str:
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def render_chat(conversation: ChatConversation, width: int = 80) -> str:
    return join_lines(ChatLines(conversation).make_lines(width))


def render_status(chat: TargetChat, now: float = 12.0) -> str:
    return join_lines([format_status(chat, now=now)])


def make_turn_failure(turn: int, **more: Any) -> TurnFailed:
    fields = {"status": CaseStatus.ERROR, "failure": Failure(kind=FailureKind.AGENT, message="ValueError: no")}
    return TurnFailed(turn=turn, duration_seconds=1.0, **{**fields, **more})


def test_a_tool_call_is_shown_while_it_runs_and_afterwards() -> None:
    conversation = apply_events(
        make_conversation("on"), make_turn_begin(0, "on"), make_tool_step("set_device", end=None)
    )
    at_work = render_chat(conversation)
    apply_events(conversation, make_tool_step("set_device", end=0.4, response={"status": "ok"}))

    assert "→ set_device  id=1" in at_work and "… running" in at_work
    assert '← {"status": "ok"}' in render_chat(conversation) and "… running" not in render_chat(conversation)


def test_an_answered_turn_shows_everything_in_order() -> None:
    events = [
        {"author": "root", "content": {"parts": [{"text": "let me see"}]}},
        {"author": "root", "content": {"parts": [{"function_call": {"id": "1", "name": "roll", "args": {"n": 6}}}]}},
        {"author": "root", "content": {"parts": [{"function_response": {"id": "1", "response": {"r": 4}}}]}},
        {"author": "helper", "content": {"parts": [{"text": "thinking", "thought": True}, {"text": "four it is"}]}},
    ]  # fmt: skip
    conversation = apply_events(make_conversation("roll"), make_turn_begin(0, "roll"), make_tool_step("roll", end=None))
    apply_events(
        conversation,
        make_turn_answer(
            0, "You rolled 4.", data={"invocation_events": events}, inference_calls=2, usage={"total": 1234}
        ),
    )

    text = render_chat(conversation)

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
    make_new_sets = [text.index(item) for item in wanted]
    assert make_new_sets == sorted(make_new_sets)
    assert "thinking" not in text
    assert "500 ms · 1,234 tokens · 2 model calls" in text


def test_the_words_of_a_sub_agent_are_under_its_name_after_the_transfer() -> None:
    call = {"id": "1", "name": "transfer_to_agent", "args": {"agent_name": "checker"}}
    events = [{"author": "root", "content": {"parts": [{"function_call": call}]}}]
    response = {"content": {"parts": [{"text": "7 is prime."}]}}
    step = Span(id="m", kind=SpanKind.MODEL, name="model", start=0.1, end=0.2, response=response)
    step = step.model_copy(update={"attributes": {"agent": "checker"}})
    conversation = apply_events(make_conversation("7?"), make_turn_begin(0, "7?"), StepSeen(span=step))
    apply_events(conversation, make_turn_answer(0, "7 is prime.", data={"invocation_events": events}))

    lines = [line.strip() for line in render_chat(conversation).splitlines()]

    assert lines[lines.index("7 is prime.") - 1] == "checker"
    assert "⇒ transfer to checker" in lines
    assert "home" not in lines


def test_an_error_shows_its_message_and_on_demand_traceback_and_stderr_without_secrets() -> None:
    library = 'File "/venv/lib/python3.11/site-packages/google/adk/runners.py", line 5, in run'
    traceback = f'Traceback: api_key=abcdefghij\n  {library}\n  File "/home/me/agent.py", line 3, in look_up'
    failure = Failure(kind=FailureKind.CRASH, message="it died", traceback=traceback, stderr_tail="last words")
    conversation = apply_events(
        make_conversation("x"),
        make_turn_begin(0, "x"),
        make_tool_step("slow", end=None),
        make_turn_failure(0, failure=failure),
    )

    lines = ChatLines(conversation)
    short = join_lines(lines.make_lines(80))
    assert "! crash error  it died" in short and "did not return" in short
    assert "alt+t shows traceback and stderr" in short
    assert "look_up" not in short and "last words" not in short

    lines.toggle_details()
    text = join_lines(lines.make_lines(80))

    assert "! crash error  it died" in text and "last words" in text and "alt+t shows" not in text
    assert "… 1 frame in google.adk" in text and "runners.py" not in text and "look_up" in text
    assert "abcdefghij" not in text


def test_external_text_is_shown_without_control_characters() -> None:
    conversation = apply_events(
        make_conversation(NASTY),
        make_turn_begin(0, NASTY),
        make_tool_step(NASTY, end=0.2, response=NASTY),
        make_turn_answer(0, NASTY),
    )

    text = render_chat(conversation, width=40)

    assert "\x1b" not in text and "\u202e" not in text
    assert "[/b]" in text and "卧" in text


def test_long_content_is_shortened_with_a_note() -> None:
    conversation = apply_events(
        make_conversation("x"),
        make_turn_begin(0, "x"),
        make_tool_step("big", end=1.0, response="y" * 200_000),
        make_turn_answer(0, "z" * 200_000),
    )
    apply_events(
        conversation,
        make_turn_begin(1, "x"),
        StepSeen(span=make_tool_step("big", end=1.0, response="y" * 200_000).span.model_copy(update={"turn": 1})),
    )

    text = render_chat(conversation)

    assert "180,000 more characters not shown" in text
    assert "more characters in the trace" in text
    assert len(text) < 60_000


def test_many_steps_show_the_newest_during_and_the_first_after_the_turn() -> None:
    conversation = apply_events(
        make_conversation("x"),
        make_turn_begin(0, "x"),
        *(make_tool_step(f"tool{n}", end=1.0, id=str(n)) for n in range(5_000)),
    )
    live = render_chat(conversation)
    calls = [{"name": f"tool{n}", "args": {}} for n in range(1_000)]
    apply_events(conversation, make_turn_answer(0, "done", data={"tool_uses": calls}))

    assert "4,600 earlier steps" in live and "tool4999" in live and "tool4599 " not in live
    assert (
        "600 more steps" in render_chat(conversation)
        and "tool399" in render_chat(conversation)
        and "tool400" not in render_chat(conversation)
    )


def test_only_changed_turns_are_laid_out_again() -> None:
    conversation = apply_events(
        make_conversation("a", "b"), make_turn_begin(0, "a"), make_turn_answer(0, "A"), make_turn_begin(1, "b")
    )
    lines = ChatLines(conversation)
    first = lines.make_lines(80)
    apply_events(conversation, make_turn_answer(1, "B"))

    again = lines.make_lines(80)

    assert again[0] is first[0] and "B" in join_lines(again) and "B" not in join_lines(first)
    second = lines.find_first_line(1, 80)
    assert (
        lines.find_turn(second, 80) == 1 and lines.find_turn(second - 1, 80) == 0 and lines.find_turn(999, 80) is None
    )


def test_the_status_is_shown_at_every_stage_of_a_chat() -> None:
    chat = TargetChat("home")
    assert "no session yet" in render_status(chat)
    conversation = make_conversation("a", "b")
    chat.start(conversation)
    apply_events(conversation, make_turn_begin(0, "a"))
    assert "2.0 s  waiting for the agent · 1 turn to follow" in render_status(chat)
    apply_events(conversation, make_tool_step("set_device", end=None))
    assert "set_device" in render_status(chat)
    apply_events(
        conversation,
        make_turn_answer(0, "A", usage={"prompt": 3, "candidates": 4}),
        StateSeen(turn=0, state={}),
        make_turn_begin(1, "b"),
    )
    apply_events(conversation, make_turn_answer(1, "B"))
    assert render_status(chat).strip() == "2 turns · 7 tokens · 1.00 s"
    apply_events(conversation, ChatEnded(failure=Failure(kind=FailureKind.CRASH, message="it died")))
    assert render_status(chat).strip() == "! the session is over"
    assert "alt+t" not in render_chat(conversation), "there is no more to show"
    assert "! crash error  it died" in render_chat(conversation) and "enter sends 2 answered turns" in render_chat(
        conversation
    )
    chat.problem = "api_key=abcdefghij is wrong"
    assert "[redacted]" in render_status(chat)


def test_a_failed_turn_returns_to_the_input_unless_it_has_other_text() -> None:
    conversation = apply_events(
        make_conversation("a"),
        make_turn_begin(0, "a"),
        make_turn_failure(0, status=CaseStatus.CANCELLED, failure=None),
        ChatEnded(),
    )
    chat = TargetChat("home")
    chat.start(conversation)

    assert conversation.turns[0].phase is ChatPhase.CANCELLED and not conversation.is_busy
    assert chat.restore_draft() and chat.draft == "a"
    chat.draft = "typed meanwhile"
    assert not chat.restore_draft() and chat.draft == "typed meanwhile"


def test_a_restarted_session_repeats_all_or_the_answered_messages() -> None:
    conversation = apply_events(
        make_conversation("a", "b", "c"),
        make_turn_begin(0, "a"),
        make_turn_answer(0, "A"),
        make_turn_begin(1, "b"),
        make_turn_failure(1),
    )
    apply_events(conversation, ChatEnded(unsaid=(make_message("c"),)))
    chat = TargetChat("home")
    chat.start(conversation)

    assert [content.text() for content in chat.list_all_messages()] == ["a", "b", "c"]
    assert [content.text() for content in chat.list_answered_messages()] == ["a"]


def test_the_result_of_a_chat_is_like_the_result_of_a_case() -> None:
    conversation = apply_events(
        make_conversation("a", "b", state={"n": 0}),
        make_turn_begin(0, "a"),
        make_tool_step("t", end=None),
        make_tool_step("t", end=0.3),
    )
    apply_events(
        conversation,
        make_turn_answer(0, "A"),
        StateSeen(turn=0, state={"n": 1}),
        make_turn_begin(1, "b"),
        make_turn_failure(1),
        ChatEnded(stderr_tail="!"),
    )

    result = conversation.make_result()

    assert result.case == CaseKey(target="home", eval_set="", eval_id="chat 1")
    assert result.status is CaseStatus.NOT_EVALUATED
    assert [span.end for span in result.execution.spans] == [0.3]
    assert result.execution.final_state == {"n": 1} and result.execution.stderr_tail == "!"
    assert result.failure is not None and result.duration_seconds == 1.5
    assert (conversation.find_state_before_turn(0), conversation.find_state_before_turn(1)) == ({"n": 0}, {"n": 1})


def test_earlier_prompts_and_the_typed_text_can_be_recalled() -> None:
    prompts = TargetChat("home").prompts
    for text in ("one", "two", "one"):
        prompts.add(text)

    assert [prompts.show_previous("typed"), prompts.show_previous("one"), prompts.show_previous("two")] == [
        "one",
        "two",
        None,
    ]
    assert [prompts.show_next("two"), prompts.show_next("one"), prompts.show_next("typed")] == ["one", "typed", None]


def test_the_cursor_moves_from_turn_to_turn_and_leaves_after_the_last() -> None:
    chat = TargetChat("home")
    chat.move_cursor(-1)
    assert chat.chosen is None
    chat.start(
        apply_events(
            make_conversation("a", "b"),
            make_turn_begin(0, "a"),
            make_turn_answer(0, "A"),
            make_turn_begin(1, "b"),
            make_turn_answer(1, "B"),
        )
    )

    selections: list[Any] = []
    for step in (-1, -1, -1, 1, 1):
        chat.move_cursor(step)
        selections.append(chat.chosen)

    assert selections == [1, 0, 0, 1, None]


def test_only_unsaved_turns_are_lost_with_a_session() -> None:
    chat = TargetChat("home")
    chat.start(apply_events(make_conversation("a"), make_turn_begin(0, "a"), make_turn_answer(0, "A")))
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
    case_key = CaseKey(target="home", eval_set="a/z.test.json", eval_id="c")

    assert [
        item.label for item in list_save_locations(SETS, target="home", eval_set="a/z.test.json", case=case_key)
    ] == [
        "in a/z.test.json",
        "replacing the case c",
        "in a/y.evalset.json",
        "in a new eval set",
        "in b/x.evalset.json · of other",
    ]
    assert list_save_locations([], target="home", eval_set=None, case=None)[0].eval_set is None


def test_a_proposed_id_is_not_in_use() -> None:
    assert propose_case_id({"chat_1"}, None) == "chat_2"


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
    problem_found = check_new_case_id(eval_id, taken={"taken"})

    assert (problem_found is None) if problem is None else (problem_found is not None and problem in problem_found)


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
def test_the_initial_state_is_read_from_the_typed_text(text: str, state: dict[str, Any], problem: str) -> None:
    problem_found = parse_state(text)

    assert problem_found[0] == state and problem in problem_found[1] and bool(problem_found[1]) == bool(problem)


def test_a_simulated_call_says_so_while_it_runs_and_afterwards() -> None:
    marked: dict[str, Any] = {"attributes": {"workbench.simulated": "model"}}
    conversation = apply_events(
        make_conversation("on"), make_turn_begin(0, "on"), make_tool_step("set_device", end=0.4, response={}, **marked)
    )
    assert "→ set_device  id=1  (simulated: model)" in render_chat(conversation)

    apply_events(
        conversation, make_turn_answer(0, "done", data={"tool_uses": [{"name": "set_device", "args": {"id": 1}}]})
    )

    assert "→ set_device  id=1  (simulated: model)" in render_chat(conversation)


def make_branch_origin(*, turns: int, case: CaseKey | None) -> BranchOrigin:
    answered = make_turn_answer(0, "hello").result
    return BranchOrigin(branch=ChatBranch(turns=[answered] * turns), case=case)


def test_a_replayed_turn_is_marked_and_says_what_was_asked_again() -> None:
    begin = make_turn_begin(0, "on").model_copy(update={"is_replayed": True})
    conversation = apply_events(make_conversation("on"), begin)
    assert "· replaying" in render_chat(conversation)
    apply_events(conversation, make_turn_answer(0, "done"))
    exact = render_chat(conversation)
    why = "turn 1 was asked again: instruction, line 4 [bold]\x1b"
    again = make_turn_answer(0, "done").model_copy(update={"live_parts": (why,)})
    apply_events(conversation, again)

    assert "turn 1" in exact and "· replayed" in exact
    assert "· asked again" in render_chat(conversation) and "· replayed" not in render_chat(conversation)
    assert "! turn 1 was asked again: instruction, line 4 [bold]" in render_chat(conversation)
    assert "\x1b" not in render_chat(conversation)


def test_the_status_of_a_branch_counts_the_turns_that_are_replayed() -> None:
    chat = TargetChat("home")
    conversation = make_conversation("on", "off")
    conversation.origin = make_branch_origin(turns=2, case=CaseKey(target="home", eval_set="s", eval_id="lights"))
    chat.start(conversation)
    apply_events(conversation, make_turn_begin(0, "on"))
    assert "replaying turn 1 of 2" in render_status(chat) and conversation.is_replaying

    apply_events(conversation, make_turn_answer(0, "a"), make_turn_begin(1, "off"), make_turn_answer(1, "b"))
    assert "branch of lights after turn 2 · 2 turns" in render_status(chat) and not conversation.is_replaying
    conversation.add_message(make_message("live"))
    assert conversation.is_busy and not conversation.is_replaying


def test_the_message_of_a_replayed_turn_does_not_return_to_the_input() -> None:
    chat = TargetChat("home")
    begin = make_turn_begin(0, "on").model_copy(update={"is_replayed": True})
    conversation = apply_events(make_conversation("on"), begin, make_turn_failure(0))
    conversation.origin = make_branch_origin(turns=1, case=None)
    chat.start(conversation)

    assert not chat.restore_draft() and not chat.draft


def test_a_replayed_turn_that_was_asked_again_and_failed_says_so() -> None:
    begin = make_turn_begin(0, "on").model_copy(update={"is_replayed": True})
    conversation = apply_events(make_conversation("on"), begin, make_turn_failure(0, live_parts=("asked: because",)))

    text = render_chat(conversation)

    assert "asked again" in text and "! asked: because" in text and "· replayed" not in text


def test_a_message_of_the_user_that_was_not_sent_returns_to_the_input() -> None:
    chat = TargetChat("home")
    begin, failure = make_turn_begin(0, "on"), make_turn_failure(0)
    conversation = apply_events(make_conversation("on", "live"), begin, failure, ChatEnded())
    conversation.origin = make_branch_origin(turns=1, case=None)
    chat.start(conversation)
    assert not chat.restore_draft(), "it may be one of a case that is replayed"

    chat.prompts.add("live")

    assert chat.restore_draft() and chat.draft == "live"
    assert "enter sends only your message" in render_chat(conversation)


def test_a_branch_that_is_limited_loses_what_is_expected_of_its_last_turns() -> None:
    origin = replace(make_branch_origin(turns=2, case=None), expected=ExpectedTurns(turns=[{"a": 1}, {"b": 2}]))

    limited = origin.limit_turns(1)

    assert len(limited.branch.turns) == 1 and limited.expected == ExpectedTurns(turns=[{"a": 1}])
    assert origin.limit_turns(3) == origin


def test_replayed_turns_are_not_lost_with_a_session() -> None:
    chat = TargetChat("home")
    begin = make_turn_begin(0, "on").model_copy(update={"is_replayed": True})
    chat.start(apply_events(make_conversation("on", "off"), begin, make_turn_answer(0, "a")))
    assert chat.unsaved_turns == 0

    assert chat.conversation is not None
    apply_events(chat.conversation, make_turn_begin(1, "off"), make_turn_answer(1, "b"))

    assert chat.unsaved_turns == 1


def test_a_case_of_a_branch_is_named_like_the_case() -> None:
    of_case = make_branch_origin(turns=1, case=CaseKey(target="home", eval_set="s", eval_id="lights"))
    of_chat = make_branch_origin(turns=0, case=None)

    assert propose_case_id({"chat_1"}, of_case) == "lights_branch"
    assert propose_case_id({"lights_branch"}, of_case) == "lights_branch_2"
    assert propose_case_id({"chat_1"}, of_chat) == "chat_2"
