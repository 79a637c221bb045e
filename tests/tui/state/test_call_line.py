"""Tool calls as one line of text: every spelling that users paste, clear messages, and completion."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.tui.state.call_line import (
    InvalidCall,
    KnownCalls,
    TypedCall,
    format_call,
    list_completions,
    parse_call,
    read_call,
    replace_call,
)


def complete_call(text: str, known: KnownCalls) -> str:
    """Return the most likely continuation; empty if there is none."""
    return next((each.rest for each in list_completions(text, known)), "")


DEVICE = {"location": "Bedroom", "status": "OFF"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('set_device_info(location="Bedroom", status="OFF")', DEVICE),
        ("set_device_info(location='Bedroom', status='OFF')", DEVICE),
        ('set_device_info( location = "Bedroom",\n  status = "OFF", )', DEVICE),
        ('set_device_info(location: "Bedroom", "status": "OFF")', DEVICE),
        ('set_device_info({"location": "Bedroom", "status": "OFF"})', DEVICE),
        ('{"name": "set_device_info", "args": {"location": "Bedroom", "status": "OFF"}}', DEVICE),
        ('{"tool_name": "set_device_info", "tool_input": {"location": "Bedroom", "status": "OFF"}}', DEVICE),
        ("set_device_info()", {}),
        ("set_device_info", None),
        ("set_device_info(on=True, off=false, x=None, y=null)", {"on": True, "off": False, "x": None, "y": None}),
        ("set_device_info(a=[1, (2, 'b')], b={'c': True})", {"a": [1, [2, "b"]], "b": {"c": True}}),
        (r"""set_device_info(a='it\'s', b="\", (")""", {"a": "it's", "b": '", ('}),
        ("set_device_info(a=-1.5e3, b=1_000)", {"a": -1500.0, "b": 1000}),
        ('set_device_info("two words"=1, größe=2)', {"two words": 1, "größe": 2}),
    ],
)
def test_a_call_is_read_in_all_spellings(text: str, expected: dict[str, Any] | None) -> None:
    assert parse_call(text) == TypedCall("set_device_info", expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: found the end, expected the name of a tool"),
        ("set_light(", "column 11: found the end, expected the name of an argument"),
        ("set_light(room", "column 11: found r, expected an argument as name=value"),
        ('set_light("hall")', 'column 11: found ", expected an argument as name=value'),
        ("set_light(room=hall)", 'column 16: found hall, expected a value; write texts in quotes: "hall"'),
        ('set_light(room="hall)', "column 16: the text has no closing quote"),
        ("set_light(room=)", "column 16: found ), expected a value"),
        ("set_light(room=1 on=2)", "column 16: found 1 on=2, expected a value"),
        ("set_light(room=1, room=2)", "column 19: duplicate argument 'room'"),
        ("set_light(room=[1)", "column 19: found the end, expected ]"),
        ("set_light(room=1) now", "column 19: found n, expected the end"),
        ("set light", "column 5: found l, expected ( or the end"),
        ("set_light(n=1e999)", "column 13: found 1e999, expected a value"),
        ("set_light(n={1: 2})", "column 13: found {1: 2}, expected a value"),
        ("set_light(n=b'x')", "column 13: found b'x', expected a value"),
        ('{"name": "f", "extra": 1}', 'expected an object with "name" and "args" only'),
        ('{"args": {}}', 'expected an object with "name" and "args"'),
        ("f([1])", "column 3: found [, expected the name of an argument"),
        ('f(a={"x": 1, "x": 2})', "duplicate key 'x' in an object"),
        ("f(a={'x': 1, 'x': 2})", "duplicate key 'x' in an object"),
        ('f({"x": 1, "x": 2})', "duplicate key 'x' in an object"),
    ],
)
def test_an_invalid_call_is_reported_with_its_column(text: str, message: str) -> None:
    with pytest.raises(InvalidCall) as raised:
        parse_call(text)

    assert str(raised.value) == message


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    for text in (f"f(a={'[' * 100_000})", f"f(a={'[' * 150 + ']' * 150})", f"f(a={'-' * 100_000}1)"):
        try:
            parse_call(text)
        except InvalidCall:
            continue


_NAMES = st.from_regex(r"[A-Za-z_][\w.\-]{0,8}", fullmatch=True)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(name=_NAMES, arguments=st.dictionaries(st.text(max_size=6), _VALUES, max_size=3))
def test_a_written_call_is_read_as_the_same_call(name: str, arguments: dict[str, Any]) -> None:
    assert parse_call(format_call(name, arguments)) == TypedCall(name, arguments)


@given(text=st.text(alphabet="ab(){}[]=:,'\"\\ 1.-\n", max_size=20))
def test_any_text_is_a_call_or_an_error_with_a_message(text: str) -> None:
    try:
        call = parse_call(text)
    except InvalidCall as error:
        assert str(error)
    else:
        assert parse_call(format_call(call.name, call.arguments or {})).arguments == (call.arguments or {})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"id": "7", "args": {"a": 1}, "name": "f"}, {"id": "7", "args": {"b": 2}, "name": "g"}),
        ({"tool_name": "f", "tool_input": {}}, {"tool_name": "g", "tool_input": {"b": 2}}),
        ({"tool_name": "f"}, {"tool_name": "g", "tool_input": {"b": 2}}),
        ({}, {"name": "g", "args": {"b": 2}}),
    ],
)
def test_replacing_a_call_keeps_its_spelling_and_its_other_members(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert list(replace_call(old, TypedCall("g", {"b": 2})).items()) == list(new.items())


def test_a_name_alone_keeps_the_arguments() -> None:
    assert replace_call({"name": "f", "args": {"a": 1}}, parse_call("g")) == {"name": "g", "args": {"a": 1}}
    assert replace_call({"name": "f", "args": {"a": 1}}, parse_call('{"name": "g"}')) == {"name": "g", "args": {"a": 1}}
    assert replace_call({"name": "f", "args": None}, parse_call("g()")) == {"name": "g", "args": None}


@pytest.mark.parametrize(
    "value",
    [
        "f",
        None,
        {"name": "f\x1bc"},
        {"name": "f\u202e"},
        {"name": 1},
        {"name": "f", "args": [1]},
        {"name": "f(x)", "args": {}},
    ],
)
def test_a_call_that_one_line_cannot_show_is_not_read(value: Any) -> None:
    assert read_call(value) is None


@pytest.fixture
def known_calls() -> KnownCalls:
    calls = KnownCalls()
    calls.add_call("set_light", {"room": "hall", "on": True})
    calls.add_call("set_light", {"room": "hall", "on": False})
    calls.add_call("set_light", {"room": "bedroom", "on": False})
    calls.add_tool("list_lights", ())
    return calls


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("", "set_light("),
        ("set", "_light("),
        ("l", "ist_lights("),
        ("x", ""),
        ("set_light(", "room="),
        ("set_light(o", "n="),
        ("set_light(room=", '"hall"'),
        ('set_light(room="b', 'edroom"'),
        ('set_light(room="hall"', ", on="),
        ('set_light(room="hall", ', "on="),
        ('set_light(room="hall", on=', "false"),
        ('set_light(room="hall", on=false', ")"),
        ('set_light(room="a, b(", o', "n="),
        ("set_light(room=[1, ", ""),
        ("list_lights(", ")"),
        ("unknown(room=1", ")"),
        ('set_light(room="hall")', ""),
    ],
)
def test_the_most_frequent_known_continuation_is_offered(known_calls: KnownCalls, text: str, rest: str) -> None:
    assert complete_call(text, known_calls) == rest


def test_a_whole_call_can_be_completed_step_by_step(known_calls: KnownCalls) -> None:
    text = "se"
    while rest := complete_call(text, known_calls):
        text += rest

    assert parse_call(text) == TypedCall("set_light", {"room": "hall", "on": False})


def test_names_and_values_with_control_characters_are_written_as_escapes() -> None:
    line = format_call("f", {"a\x1bb": "\x1b[31m", "c\u202ed": "e\u2028f"})

    assert line.isascii() and line.isprintable()
    assert parse_call(line) == TypedCall("f", {"a\x1bb": "\x1b[31m", "c\u202ed": "e\u2028f"})


def test_arguments_whose_names_are_no_words_are_completed_in_quotes() -> None:
    calls = KnownCalls()
    calls.add_call("f", {"two words": 1, "b": 2})

    assert complete_call("f(", calls) == '"two words"='
    assert complete_call('f("two words"=1', calls) == ", b="
    assert complete_call("f(two", calls) == ""
    assert complete_call("f(b: 1, ", calls) == '"two words"='


@pytest.mark.parametrize("properties", [5, True, None, [{"a": 1}], "a"])
def test_declared_tools_with_unusable_parameters_have_no_arguments(properties: Any) -> None:
    calls = KnownCalls()
    calls.add_data({"tools": [{"name": "f", "parameters": {"properties": properties}}, {"name": "g", "parameters": 1}]})

    assert set(calls.tools) == {"f", "g"}
    assert calls.arguments == {}


def test_an_endless_value_is_not_completed() -> None:
    calls = KnownCalls()
    calls.add_call("f", {"a": 1})

    assert complete_call("f(a=" + "[" * 100_000, calls) == ""


@given(text=st.text(alphabet="ab(){}[]=:,'\"\\ 1", max_size=20))
def test_any_text_can_be_completed(text: str) -> None:
    calls = KnownCalls()
    calls.add_call("ab", {"a": 1, "b": "b"})
    assert isinstance(complete_call(text, calls), str)


def test_all_continuations_are_listed_the_most_likely_first(known_calls: KnownCalls) -> None:
    known_calls.add_call("search", {})

    assert [each.label for each in list_completions("se", known_calls)] == ["set_light", "search"]
    assert [each.rest for each in list_completions("se", known_calls)] == ["t_light(", "arch("]
    assert [each.label for each in list_completions("set_light(", known_calls)] == ["room", "on"]
    labels = [each.label for each in list_completions("set_light(room=", known_calls)]
    assert labels[0] == '"hall"' and '"bedroom"' in labels
