"""Simulated tool calls beside the expected calls."""

from __future__ import annotations

from typing import Any

from workbench.model.results import CaseStatus
from workbench.model.trace import Span, SpanKind
from workbench.tui.state.diff_content import make_diff
from workbench.tui.state.diff_lines import DiffSource, Level
from workbench.tui.state.text_layout import render_blocks


def render_diff(
    make: Any, expected: dict[str, Any], actual: dict[str, Any], *, level: Level = Level.EVERYTHING
) -> list[str]:
    """Return the diff in one column; in the execution `set` was injected with n=2, and `get` was called."""
    calls = [("set", {"n": 1}, None), ("set", {"n": 2}, "injected"), ("get", {}, None)]
    spans = tuple(
        Span(
            id=str(number),
            kind=SpanKind.TOOL,
            name=name,
            request=args,
            attributes={} if source is None else {"workbench.simulated": source},
        )
        for number, (name, args, source) in enumerate(calls)
    )
    result = make.result(make.key("a"), CaseStatus.FAILED, actual, metrics=[])
    result = result.model_copy(update={"execution": result.execution.model_copy(update={"spans": spans})})
    content = make_diff(
        DiffSource(case=make.case("a", expected), turns=result.execution.turns, result=result, level=level)
    )
    lines = render_blocks(list(content.blocks), width=70, side_by_side=False)
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


def test_the_actual_side_says_which_calls_were_simulated(make: Any) -> None:
    expected = make.turn("Go", "Done.", ("set", {"n": 2}), ("get", {}))
    actual = make.turn("Go", "Done.", ("set", {"n": 2}), ("get", {}), ("set", {"n": 1}))

    assert render_diff(make, expected, actual) == [
        "turn 1 · user  Go",
        "- EXPECTED  + ACTUAL",
        "  set",
        "    (simulated: injected)",
        "    n  2",
        "  get",
        "+ set (not expected)",
        "+   n  1",
        "  Done.",
        "",
    ]


def test_a_folded_turn_counts_its_simulated_calls(make: Any) -> None:
    turn = make.turn("Go", "Done.", ("set", {"n": 2}), ("get", {}))
    changed = make.turn("Go", "Gone.", ("set", {"n": 2}), ("get", {}))

    assert render_diff(make, turn, changed, level=Level.FOLDED)[3] == "    (simulated: injected)"
    assert "turn 1 · user  Go  as expected (2 calls, 1 simulated)" in render_two_turns(make, turn, changed)


def render_two_turns(make: Any, first_turn: dict[str, Any], changed: dict[str, Any]) -> list[str]:
    """Return the diff of two turns; the first is as expected and folded."""
    result = make.result(make.key("a"), CaseStatus.FAILED, first_turn, changed, metrics=[])
    span = Span(
        id="1", kind=SpanKind.TOOL, name="set", request={"n": 2}, attributes={"workbench.simulated": "injected"}
    )
    result = result.model_copy(update={"execution": result.execution.model_copy(update={"spans": (span,)})})
    source = DiffSource(
        case=make.case("a", first_turn, first_turn), turns=result.execution.turns, result=result, level=Level.FOLDED
    )
    lines = render_blocks(list(make_diff(source).blocks), width=70, side_by_side=False)
    return ["".join(piece.text for piece in line).rstrip() for line in lines]
