"""Lists of messages as rows: prompts, calls and answers, in every named format."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workbench.model.trace import ToolCall
from workbench.store.datasets.dataset_files import dataset_from_rows, read_dataset
from workbench.store.datasets.dataset_rows import Row
from workbench.store.datasets.message_rows import MessageTurn, ToolResult, find_messages, read_messages
from workbench.store.errors import StoreError

CALL = ToolCall("set_light", {"room": "hall", "on": True})
OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "light"}, {"type": "image_url", "image_url": {"url": "x"}}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "set_light", "arguments": json.dumps(CALL.args)}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": '{"ok": true}'},
    {"role": "assistant", "content": "done"},
]
LANGCHAIN: list[dict[str, Any]] = [
    {"type": "system", "content": "Be brief."},
    {"type": "human", "content": "light"},
    {"type": "ai", "content": "", "tool_calls": [{"name": "set_light", "args": CALL.args, "id": "1"}]},
    {"type": "tool", "content": '{"ok": true}', "tool_call_id": "1"},
    {"type": "ai", "content": "done", "tool_calls": []},
]
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "light"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "wait"},
            {"type": "tool_use", "id": "1", "name": "set_light", "input": CALL.args},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "ok"}, {"type": "image"}]}
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
]
CLASSES = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
FORMS: dict[str, list[Any]] = {
    "openai": OPENAI,
    "langchain": LANGCHAIN,
    "anthropic": ANTHROPIC,
    "message_to_dict": [{"type": each["type"], "data": each} for each in LANGCHAIN],
    "dumpd": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "messages", CLASSES[each["type"]]], "kwargs": each}
        for each in LANGCHAIN
    ],
}


def get_facts(row: Row) -> tuple[Any, ...]:
    return row.prompt, row.response, row.predicted_trajectory, row.problems


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["d.jsonl", "bare.jsonl", "d.json", "bare.json", "one.json", "only.json", "d.csv"])
def test_a_conversation_is_a_row_in_every_form_and_format(tmp_path: Path, form: str, name: str) -> None:
    messages = FORMS[form]
    path = tmp_path / name
    text = json.dumps(messages)
    path.write_text(
        {
            "d.jsonl": json.dumps({"messages": messages}),
            "bare.jsonl": text,
            "d.json": json.dumps([{"messages": messages}]),
            "bare.json": json.dumps([messages]),
            "one.json": json.dumps({"messages": messages}),
            "only.json": text,
            "d.csv": 'messages\n"' + text.replace('"', '""') + '"',
        }[name]
    )

    (row,) = read_dataset(path).rows

    assert get_facts(row) == ("light", "done", [CALL], ())
    assert row.columns["response"] == "done"
    assert row.columns["predicted_trajectory"] == [{"tool_name": "set_light", "tool_input": CALL.args}]


_CALL_OF_GEMINI = {"functionCall": {"name": "set_light", "args": dict(CALL.args or {})}}
_CHAT = [{"role": "user", "content": "light"}]
_BATCHES: dict[str, tuple[Any, Any, Any]] = {
    "gemini": (
        {"contents": [{"role": "user", "parts": [{"text": "light"}]}], "systemInstruction": {"parts": [{"text": "b"}]}},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "done"}]}}]},
        ("light", "done", [], ()),
    ),
    "openai": (
        {"model": "m", "messages": _CHAT},
        {"choices": [{"message": {"role": "assistant", "content": "done"}}]},
        ("light", "done", [], ()),
    ),
    "a call": (
        {"contents": [{"parts": [{"text": "light"}]}]},
        {"candidates": [{"content": {"role": "model", "parts": [_CALL_OF_GEMINI]}}]},
        ("light", None, [CALL], ()),
    ),
    "no answer": ({"messages": _CHAT}, {"choices": []}, ("light", None, None, ())),
    "broken": ({"messages": _CHAT}, {"choices": 3}, ("light", None, None, ())),
    "an error": ({"messages": _CHAT}, {"error": {"code": 503}}, ("light", None, None, ())),
    "a failed line of Vertex": ({"messages": _CHAT}, {}, ("light", None, None, ())),
    "own answer": ({"messages": _CHAT}, "done", ("light", "done", None, ())),
    "text": ("light", "done", ("light", "done", None, ())),
}


@pytest.mark.parametrize("form", _BATCHES)
@pytest.mark.parametrize("name", ["d.jsonl", "text.jsonl", "d.csv"])
def test_a_request_and_its_reply_are_a_row(tmp_path: Path, form: str, name: str) -> None:
    request, reply, facts = _BATCHES[form]
    path = tmp_path / name
    cells = [each if isinstance(each, str) else json.dumps(each) for each in (request, reply)]
    path.write_text(
        {
            "d.jsonl": json.dumps({"request": request, "response": reply}),
            "text.jsonl": json.dumps(dict(zip(("request", "response"), cells, strict=True))),
            "d.csv": "request,response\n" + ",".join('"' + cell.replace('"', '""') + '"' for cell in cells),
        }[name]
    )

    (row,) = read_dataset(path).rows

    assert get_facts(row) == facts


@pytest.mark.skipif(importlib.util.find_spec("langchain_core") is None, reason="needs langchain-core")
def test_langchain_messages_are_read_as_objects_and_in_serialised_forms() -> None:
    from langchain_core.load import dumpd
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_to_dict

    messages = [
        HumanMessage("light"),
        AIMessage("", tool_calls=[{"name": "set_light", "args": dict(CALL.args or {}), "id": "1"}]),
        ToolMessage('{"ok": true}', tool_call_id="1"),
        AIMessage("done"),
    ]
    forms: list[Any] = [messages, messages_to_dict(messages), [dumpd(message) for message in messages]]

    for row in dataset_from_rows([{"messages": form} for form in forms]).rows:
        assert get_facts(row) == ("light", "done", [CALL], ())


def test_a_conversation_of_several_turns_is_read_turn_by_turn() -> None:
    again = [{"role": "user", "content": "and"}, {"role": "user", "content": "more"}, *OPENAI[2:4]]
    call_with_text = {**OPENAI[2], "content": "wait"}

    conversation = read_messages([*OPENAI[:4], call_with_text, OPENAI[4], *again])

    assert conversation.system == "Be brief."
    first, second = conversation.turns
    assert (first.prompt, first.calls, first.said, first.answer) == ("light", [CALL, CALL], ["wait"], "done")
    assert first.left_out == ["image_url"]
    assert [tuple(result) for result in first.results] == [("set_light", '{"ok": true}')]
    assert (second.prompt, second.calls, second.answer) == ("and\n\nmore", [CALL], None)
    assert conversation.prompt == "light\n\nand\n\nmore"
    assert conversation.calls == [CALL] * 3


def test_calls_and_results_in_parts_of_a_message_are_read() -> None:
    again = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}, "and more"]}

    first, second = read_messages([*ANTHROPIC, ANTHROPIC[1], again]).turns

    assert (first.prompt, first.calls, first.said, first.answer) == (
        "light",
        [CALL, CALL],
        ["wait", "done", "wait"],
        None,
    )
    assert [tuple(result) for result in first.results] == [("set_light", "ok")] * 2
    assert first.left_out == ["image"]
    assert (second.prompt, second.calls) == ("and more", None)
    assert [turn.prompt for turn in read_messages([again]).turns] == [None, "and more"]


def test_a_call_in_both_a_field_and_a_part_is_counted_once() -> None:
    both = {**LANGCHAIN[2], "content": [{"type": "tool_use", "id": "1", "name": "set_light", "input": {}}]}

    assert read_messages([LANGCHAIN[1], both]).calls == [CALL]


def test_calls_of_messages_without_an_assistant_are_unknown() -> None:
    prompt_messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "light"}]
    rows: list[dict[str, Any]] = [
        {"messages": prompt_messages, "response": "done"},
        {
            "messages": prompt_messages,
            "reference_messages": [*prompt_messages, {"role": "assistant", "content": "done"}],
        },
    ]

    first, second = dataset_from_rows(rows).rows

    assert (first.prompt, first.response, first.predicted_trajectory) == ("light", "done", None)
    assert (second.predicted_trajectory, second.reference_trajectory) == (None, [])


EXPECTED_TURNS = [
    MessageTurn(prompt="light", calls=[CALL], results=[ToolResult("set_light", '{"ok": true}')], answer="done")
]
SDK_FORMS: dict[str, list[Any]] = {
    "gemini": [
        {"role": "user", "parts": [{"text": "light"}]},
        {"role": "model", "parts": [{"function_call": {"name": "set_light", "args": CALL.args}}]},
        {"role": "user", "parts": [{"function_response": {"name": "set_light", "response": {"ok": True}}}]},
        {"role": "model", "parts": [{"thought": True, "text": "good"}, {"text": "done"}]},
    ],
    "gemini in camel case": [
        {"role": "user", "parts": [{"text": "light"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "1", "name": "set_light", "args": CALL.args}}]},
        {"role": "function", "parts": [{"functionResponse": {"name": "set_light", "response": {"ok": True}}}]},
        {"role": "model", "parts": [{"text": "done"}]},
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": "light"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "1", "name": "set_light", "input": CALL.args}}],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": [{"json": {"ok": True}}]}}]},
        {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {}}}, {"text": "done"}]},
    ],
    "anthropic's own tools": [
        {"role": "user", "content": "light"},
        {
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "1", "name": "set_light", "input": CALL.args},
                {"type": "web_search_tool_result", "tool_use_id": "1", "content": {"ok": True}},
                {"type": "text", "text": "done"},
            ],
        },
    ],
    "ai sdk": [
        {"role": "user", "parts": [{"type": "text", "text": "light"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "tool-set_light", "toolCallId": "1", "input": CALL.args, "output": {"ok": True}},
                {"type": "text", "text": "done"},
            ],
        },
    ],
    "ai sdk 4": [
        {"role": "user", "content": "light", "parts": [{"type": "text", "text": "light"}]},
        {
            "role": "assistant",
            "content": "done",
            "parts": [
                {
                    "type": "tool-invocation",
                    "toolInvocation": {
                        "state": "result", "toolCallId": "1", "toolName": "set_light", "args": CALL.args,
                        "result": {"ok": True},
                    },
                },
                {"type": "text", "text": "done"},
            ],
        },
    ],
    "ai sdk 4 without parts": [
        {"role": "user", "content": "light"},
        {
            "role": "assistant",
            "content": "done",
            "toolInvocations": [
                {
                    "state": "result", "toolCallId": "1", "toolName": "set_light", "args": CALL.args,
                    "result": {"ok": True},
                },
            ],
        },
    ],
    "ai sdk's model messages": [
        {"role": "user", "content": "light"},
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": "1", "toolName": "set_light", "input": CALL.args}],
        },
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "1", "toolName": "set_light", "output": {"ok": True}}],
        },
        {"role": "assistant", "content": "done"},
    ],
    "openai's responses": [
        {"role": "user", "content": "light"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "function_call", "id": "fc_1", "call_id": "1", "name": "set_light",
            "arguments": json.dumps(CALL.args),
        },
        {"type": "function_call_output", "call_id": "1", "output": '{"ok": true}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ],
    "ai sdk 6, with an approval": [
        {"role": "user", "content": "light"},
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "toolCallId": "1", "toolName": "set_light", "input": CALL.args},
                {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "1"},
            ],
        },
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "1", "output": {"ok": True}}]},
        {"role": "assistant", "content": "done"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", SDK_FORMS)
def test_calls_are_found_in_the_messages_of_every_sdk(form: str) -> None:
    turns = read_messages(SDK_FORMS[form]).turns

    assert [replace(turn, left_out=[]) for turn in turns] == EXPECTED_TURNS
    (row,) = dataset_from_rows([{"contents": SDK_FORMS[form]}]).rows
    assert (row.predicted_trajectory, row.response) == ([CALL], "done")


@pytest.mark.parametrize(
    "message",
    [
        {"type": "custom_tool_call", "call_id": "1", "name": "run", "input": '{"a": 1}'},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "run", "input": '{"a": 1}'}}],
        },
    ],
)
def test_the_input_of_a_custom_tool_stays_text(message: dict[str, Any]) -> None:
    calls = [message, *message.get("tool_calls", ())][-1:]

    by_messages, by_calls = dataset_from_rows(
        [
            {"messages": [{"role": "user", "content": "light"}, message]},
            {"prompt": "light", "response": "", "predicted_trajectory": calls},
        ]
    ).rows

    run = [ToolCall("run", {"__arg1": '{"a": 1}'})]
    assert (by_messages.predicted_trajectory, by_calls.predicted_trajectory) == (run, run)


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({"role": "assistant", "bar": 2}, "messages[1]"),
        ({"role": "assistant", "content": [{"type": "invoke", "tool": "x"}]}, "messages[1].content[0]"),
        ({"role": "assistant", "content": [{"run": {"name": "x"}}]}, "messages[1].content[0]"),
        ({"role": "assistant", "content": [7]}, "messages[1].content[0]"),
        (
            {"role": "model", "parts": [{"text": "x", "tool_request": {"name": "f"}}]},
            "messages[1].parts[0].tool_request",
        ),
        ({"type": "custom_call_of_tool", "name": "f", "input": "print(1)"}, "messages[1]"),
        ({"role": "assistant", "content": "", "tools_used": ["x"]}, "messages[1].tools_used"),
        ({"role": "assistant", "parts": {"text": "hi"}}, "messages[1].parts"),
        ({"role": "assistant", "content": "x", "actions": [{"name": "f"}]}, "messages[1].actions"),
        ({"role": "assistant", "content": "x", "action": {"tool": "f", "input": {}}}, "messages[1].action"),
        ({"role": "assistant", "content": "x", "steps": {"1": {"name": "f", "args": {}}}}, "messages[1].steps"),
    ],
)
def test_an_assistant_message_of_unknown_shape_never_means_no_calls(message: dict[str, Any], place: str) -> None:
    rows = [{"messages": OPENAI}, {"messages": [{"role": "user", "content": "light"}, message]}]

    _, row = dataset_from_rows(rows).rows

    assert row.predicted_trajectory is None
    assert place in str(row.problems[0])


@pytest.mark.parametrize(
    "field",
    [
        {"attachments": [{"name": "a.png"}]},
        {"author": {"name": "Ann"}},
        {"usage": {"input": 3}},
        {"scores": [1, 2]},
        {"response_metadata": {"model_name": "m", "token_usage": {"prompt": 1}}},
    ],
)
def test_other_fields_of_an_assistant_message_are_not_calls(field: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "light"}, {"role": "assistant", "content": "done", **field}]

    (row,) = dataset_from_rows([{"messages": messages}]).rows

    assert (row.predicted_trajectory, row.response) == ([], "done")


@pytest.mark.parametrize(
    "keys", [("executable_code", "code_execution_result"), ("executableCode", "codeExecutionResult")]
)
def test_code_that_gemini_runs_is_a_call_of_code_execution(keys: tuple[str, str]) -> None:
    code = {"language": "PYTHON", "code": "print(6 * 7)"}
    parts = [{keys[0]: code}, {keys[1]: {"outcome": "OUTCOME_OK", "output": "42\n"}}, {"text": "It is 42."}]

    (turn,) = read_messages([{"role": "user", "parts": [{"text": "6 * 7?"}]}, {"role": "model", "parts": parts}]).turns

    assert turn.calls == [ToolCall("code_execution", code)]
    assert turn.results == [ToolResult("code_execution", "42\n")]
    assert turn.answer == "It is 42."


def test_calls_in_parts_and_in_call_fields_are_counted_once() -> None:
    message = {
        "type": "ai",
        "content": [
            {"type": "server_tool_use", "id": "2", "name": "search", "input": {}},
            {"type": "tool_use", "id": "1", "name": "set_light", "input": CALL.args},
        ],
        "tool_calls": [{"name": "set_light", "args": CALL.args, "id": "1"}],
        "invalid_tool_calls": [{"name": "broken", "args": "{", "id": "3"}],
    }

    calls = read_messages([LANGCHAIN[1], message]).calls

    assert calls == [CALL, ToolCall("broken", None), ToolCall("search", {})]


def test_an_agent_may_speak_first() -> None:
    assert read_messages([["ai", "hello"], ["human", "hi"]]).turns == [
        MessageTurn(answer="hello"),
        MessageTurn(prompt="hi", calls=None),
    ]


def test_json_text_of_messages_is_read_like_messages() -> None:
    text = dataset_from_rows([{"messages": json.dumps(OPENAI)}])

    assert text == dataset_from_rows([{"messages": OPENAI}])
    assert text.rows[0].columns["messages"] == OPENAI


def test_separate_columns_override_messages(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    rows = [
        {"messages": OPENAI, "reference_messages": LANGCHAIN, "response": "given", "eval_id": "x"},
        {"messages": ["of another kind"], "prompt": "p"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))

    first, second = read_dataset(path).rows

    assert get_facts(first) == ("light", "given", [CALL], ())
    assert (first.reference, first.reference_trajectory) == ("done", [CALL])
    assert get_facts(second) == ("p", None, None, ())


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([], ":2:14: messages: found an empty list, expected a list of messages"),
        ("no", ":2:14: messages: found text, expected a list of messages or the JSON text of one"),
        (
            [{"role": "user", "content": "a"}, {"role": "judge"}],
            ":2:49: messages[1]: found an object, expected a message",
        ),
        ([{"role": "user", "content": 5}], ":2:43: messages[0].content: found a number, expected text"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}],
            ":2:52: messages[0].tool_calls[0]: found text that is not JSON, expected arguments as JSON",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}],
            ":2:52: messages[0].tool_calls[0]: found null, expected a tool call with a name",
        ),
        (
            [{"role": "assistant", "content": [{"type": "tool_use", "input": {}}]}],
            ":2:49: messages[0].content[0]: found null, expected a tool call with a name",
        ),
    ],
)
def test_messages_that_cannot_be_read_are_a_problem_of_their_row(tmp_path: Path, messages: Any, place: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"prompt": "a"}\n' + json.dumps({"messages": messages}))

    _, row = read_dataset(path).rows

    assert str(row.problems[0]).startswith(f"{path}{place}")


def test_errors_in_bare_lists_have_their_position(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text('[[["user", "a"]],\n [["user", "a"],\n  ["nobody", "b"]]]')

    _, row = read_dataset(path).rows

    assert [str(problem) for problem in row.problems] == [
        f"{path}:3:3: [1][1]: found a list, expected a message with a role"
    ]
    path.write_text('[{"role": "user", "content": 7}]')
    with pytest.raises(StoreError, match=r":1:30: \[0\]\.content: found a number"):
        read_dataset(path)


@pytest.mark.parametrize(
    "rows",
    [
        [{"type": "user", "prompt": "a"}, {"type": "tool", "prompt": "b"}],
        [{"role": "user", "prompt": "a", "content": "x"}, {"role": "admin", "prompt": "b", "content": "y"}],
    ],
)
def test_rows_with_a_role_or_a_type_are_rows(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps(rows))

    assert [row.prompt for row in read_dataset(path).rows] == ["a", "b"]


@pytest.mark.parametrize("value", [None, 5, "text", [], {}, [[]], {"messages": []}, "[", [[[[[[[["deep"]]]]]]]]])
def test_what_has_no_messages(value: Any) -> None:
    assert find_messages(value) == []
