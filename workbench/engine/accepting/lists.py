"""Accepting in a turn that lists its calls: `intermediate_data` with `tool_uses`, and the formats before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.engine.accepting.order import Key, New, Rearrangement, settled
from workbench.engine.accepting.turn_edit import TurnEdit, change_arguments, member, parts_with_text, put
from workbench.model.trajectory import ToolCall
from workbench.report.differences import DifferenceKind
from workbench.report.turns import Said, calls_of, match_responses, responses_of
from workbench.store.documents import Place


@dataclass(frozen=True, slots=True)
class ListForm:
    """Where a turn lists what happened, and how an item is written."""

    calls: Place
    said: Place
    write_call: Callable[[ToolCall], dict[str, Any]]
    write_said: Callable[[Said], Any]
    change_said: Callable[[Any, str], Any]


def _with_args(name: str, args: str, call: ToolCall) -> dict[str, Any]:
    return {name: call.name} if call.args is None else {name: call.name, args: dict(call.args)}


def _change_pair(pair: Any, text: str) -> Any:
    """What was said as the format has it: `[author, parts]`, or an object with both."""
    if isinstance(pair, list):
        return [pair[0], parts_with_text(pair[1], text)]
    put(pair, "parts", parts_with_text(member(pair, "parts"), text))
    return pair


TOOL_USES = ListForm(
    calls=("intermediate_data", "tool_uses"),
    said=("intermediate_data", "intermediate_responses"),
    write_call=lambda call: _with_args("name", "args", call),
    write_said=lambda said: [said.author, [{"text": said.text}]],
    change_said=_change_pair,
)
LEGACY = ListForm(
    calls=("expected_tool_use",),
    said=("expected_intermediate_agent_responses",),
    write_call=lambda call: _with_args("tool_name", "tool_input", call),
    write_said=lambda said: {"author": said.author, "text": said.text},
    change_said=lambda item, text: {**item, "text": text},
)
_RESPONSES = ("intermediate_data", "tool_responses")


def accept_in_lists(edit: TurnEdit, form: ListForm) -> None:
    """Accept the differences in calls, in what tools gave back and in what was said."""
    _accept_calls(edit, form)
    if form is TOOL_USES:
        _accept_responses(edit)
    _accept_said(edit, form)


def _accept_calls(edit: TurnEdit, form: ListForm) -> None:
    calls = edit.raw(*form.calls) or []
    for found in edit.arguments:
        assert found.expected_call is not None
        assert found.actual_call is not None
        given = edit.comparison.actual.calls[found.actual_call].args
        written = calls[found.expected_call]
        calls[found.expected_call] = change_arguments(written, _arguments_key(written), found, given)
    if edit.arguments:
        edit.write(form.calls, calls)
    arrangement = edit.rearranged_calls()
    write = form.write_call
    if any(isinstance(call, dict) and "tool_name" in call for call in calls):
        write = LEGACY.write_call  # some write the newer format with the older keys
    edit.write_list(form.calls, calls, arrangement, _new(arrangement, lambda i: write(edit.comparison.actual.calls[i])))


def _accept_responses(edit: TurnEdit) -> None:
    """What tools gave back stays with its call: it leaves, moves and comes with it."""
    written = edit.raw(*_RESPONSES) or []
    owners = {
        index: call
        for call, index in enumerate(match_responses(calls_of(edit.expected), responses_of(edit.expected)))
        if index is not None
    }
    changed = edit.of_kind(DifferenceKind.TOOL_RESPONSE_CHANGED)
    for found in changed:
        index = next(index for index, call in owners.items() if call == found.expected_call)
        put(written[index], "response", dict(found.actual))
    if changed:
        edit.write(_RESPONSES, written)
    edit.write_list(_RESPONSES, written, *_responses_rearranged(edit, owners, length=len(written)))


def _responses_rearranged(
    edit: TurnEdit, owners: dict[int, int], *, length: int
) -> tuple[Rearrangement, dict[Any, Any]]:
    """The responses in the order of their calls where those changed, and those that come."""
    calls = edit.rearranged_calls()
    new = {
        key: {"name": edit.comparison.actual.calls[key.actual].name, "response": dict(given)}
        for key in calls.order
        if isinstance(key, New) and (given := edit.given_back(key)) is not None
    }
    response_of: dict[Key, Key] = {call: index for index, call in owners.items()} | {key: key for key in new}
    staying: list[Key] = [
        index
        for index in range(length)
        if index not in owners or (owners[index] in calls.order and owners[index] not in calls.floating)
    ]
    floating = frozenset(response_of[call] for call in calls.floating if call in response_of)
    order = [response_of[call] for call in calls.order if call in response_of]
    return Rearrangement(settled(staying, order, floating), floating), new


def _accept_said(edit: TurnEdit, form: ListForm) -> None:
    said = edit.raw(*form.said) or []
    changed = edit.of_kind(DifferenceKind.INTERMEDIATE_CHANGED)
    for found in changed:
        assert found.expected_call is not None
        said[found.expected_call] = form.change_said(said[found.expected_call], found.actual)
    if changed:
        edit.write(form.said, said)
    arrangement = edit.rearranged_said()
    new = _new(arrangement, lambda i: form.write_said(edit.comparison.actual.said[i]))
    edit.write_list(form.said, said, arrangement, new)


def _new(arrangement: Rearrangement, write: Callable[[int], Any]) -> dict[Any, Any]:
    return {key: write(key.actual) for key in arrangement.order if isinstance(key, New)}


def _arguments_key(call: Any) -> str:
    return "tool_input" if isinstance(call, dict) and ("tool_input" in call or "tool_name" in call) else "args"
