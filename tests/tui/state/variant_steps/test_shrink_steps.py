"""The rows and texts of the search for the smallest failing case, without Textual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tui.state.spans import join
from workbench.engine.case_variants import Variant
from workbench.engine.shrinking import CandidateOutcome, CasePart, Failing, ShrinkStep, Shrunk, Symptom
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus
from workbench.tui.state import cause_search
from workbench.tui.state.cause_search import find_change
from workbench.tui.state.text_layout import render_blocks
from workbench.tui.state.variant_steps import ShrinkSteps, explain_unshrinkable

FAILURE = Failing(frozenset({Symptom("a", "argument_changed", "light", "room", '"hall"'), Symptom("b")}))


class Search:
    """A search for the smallest variant of a case with four turns."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self.key = make.key("day [b]\x1b")
        self.steps = ShrinkSteps(self.key)
        self.steps.begin()

    def add(
        self, turns: Sequence[int], outcome: CandidateOutcome, *left_out: str, part: CasePart = CasePart.TURNS
    ) -> None:
        data = [self._make.turn(f"remark {turn} \x1b[31m", "ok") for turn in turns]
        case = self._make.case("day", *data)
        found = self._make.result(self.key, CaseStatus.FAILED, *data)
        number = len(self.steps) or 1
        step = ShrinkStep(
            part=part if left_out else None,
            left_out=left_out,
            data={"conversation": list(turns)},
            sizes={each: len(turns) if each is CasePart.TURNS else 1 for each in CasePart},
            outcome=outcome,
            executions=number,
            seconds=0.25,
            variants=[Variant(case, found)],
        )
        self.steps.add(step, FAILURE)

    def finish(self, **changes: Any) -> None:
        found = Shrunk(
            case=self.key,
            outcome=CandidateOutcome.SAME,
            failure=FAILURE,
            original={"conversation": [1, 2, 3, 4]},
            data={"conversation": [1, 3]},
            turns=[0, 2],
            executions=len(self.steps) - 1,
        )
        self.steps.finish(replace(found, **changes))

    @property
    def text(self) -> str:
        """Everything that the screen shows."""
        rows = [self.steps.line(index, 100) for index in range(len(self.steps))]
        details = render_blocks(self.steps.blocks(), width=200, side_by_side=False)
        return "\n".join(map(join, [*self.steps.header_lines(), *rows, *details]))


@pytest.fixture
def search(make: Any) -> Search:
    return Search(make)


def test_each_variant_says_what_was_left_out_and_how_it_ended(search: Search) -> None:
    assert "The case itself is executed first" in search.text
    search.steps.announce("2 of 4 turns")
    search.add([1, 2, 3, 4], CandidateOutcome.SAME)
    search.add([1, 2], CandidateOutcome.PASSED, "3", "4")
    search.add([1, 3], CandidateOutcome.SAME, "2", "4", part=CasePart.TURNS)
    search.add([1, 3], CandidateOutcome.OTHER, "We are \x1b[1m [/b] away.", part=CasePart.SENTENCES)
    search.add([1, 3], CandidateOutcome.ERROR, "mode", "name", part=CasePart.STATE)
    search.add([1, 3], CandidateOutcome.MIXED, "light in turn 3", part=CasePart.CALLS)

    text = search.text

    assert 'must still fail (1 of 2 differences): a: argument changed light room, expected "hall"' in text
    assert "6 of 100 executions   trying 2 of 4 turns …" in text
    for row in (
        "▸ smallest so far: 2 turns, 1 sentence, 1 state key, 1 expected call",
        "✓   2  no failure        2 turns  without turns 3-4",
        "✗   3  same failure      2 turns  without turns 2, 4",
        "≠   4  another failure",
        "!   5  error             1 state key  without state keys mode, name",
        "~   6  repeats disagree  1 expected call  without expected call light in turn 3",
    ):
        assert row in text
    assert "\x1b" not in text
    assert "[/b] away." in text
    search.steps.move_to(0)
    assert "1 variant ended in ERROR, which never counts as the same failure" in search.text


def test_the_cursor_follows_the_newest_variant_until_the_user_moves_it(search: Search) -> None:
    search.add([1, 2, 3, 4], CandidateOutcome.SAME)
    search.add([1, 2], CandidateOutcome.PASSED, "3", "4")
    assert search.steps.cursor == 2
    assert "turn 2 · user  remark 2" in search.text

    search.steps.move(-1)
    search.add([1, 3], CandidateOutcome.SAME, "2", "4")
    search.finish()

    assert search.steps.cursor == 1
    assert "turn 4 · user  remark 4" in search.text
    search.steps.move_to(0)
    assert "turns           4 → 2  (1, 3)" in search.text
    assert "turn 2 · user  remark 3" in search.text


def test_a_result_is_unkept_until_it_has_a_name(search: Search) -> None:
    search.add([1, 2, 3, 4], CandidateOutcome.SAME)
    search.add([1, 3], CandidateOutcome.SAME, "2", "4")
    search.steps.budget = 2
    search.finish(untried=[CasePart.SENTENCES], executions=2)
    assert search.steps.is_unkept
    assert "smallest case: 4 → 2 turns" in search.text
    assert "not kept yet   not tried to the end (the budget was used up): sentences" in search.text

    assert not search.steps.can_continue
    search.steps.budget = 1
    assert not search.steps.can_continue
    search.steps.budget = 3
    assert search.steps.can_continue
    search.steps.kept_as = "day-small"

    assert not search.steps.is_unkept
    assert "kept as day-small" in search.text
    search.steps.is_unsaved = True
    assert "not saved yet: day-small" in search.text


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (CandidateOutcome.PASSED, "did not fail now, so there is nothing to shrink"),
        (CandidateOutcome.ERROR, "ended in ERROR, which is not a failure to shrink: no reason is known"),
        (CandidateOutcome.OTHER, "fails, but not by this criterion"),
    ],
)
def test_a_case_without_the_failure_is_explained_and_not_continued(
    search: Search, outcome: CandidateOutcome, expected: str
) -> None:
    search.add([1, 2, 3, 4], outcome)
    search.finish(outcome=outcome, data={"conversation": [1, 2, 3, 4]}, untried=list(CasePart))

    assert expected in search.text
    assert expected in search.steps.describe_end()
    assert not search.steps.can_continue
    assert search.steps.smaller_case is None


def test_the_time_of_a_long_execution_is_shown(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(cause_search, "time", clock)
    search.steps.announce("2 of 4 turns")
    assert "trying 2 of 4 turns …\n" in search.text

    clock.monotonic = lambda: 107.9

    assert "trying 2 of 4 turns …   7 s" in search.text


def test_what_became_of_the_case_decides_how_the_search_can_start(search: Search) -> None:
    search.add([1, 2, 3, 4], CandidateOutcome.SAME)
    search.add([1, 3], CandidateOutcome.SAME, "2", "4")
    search.finish(untried=[CasePart.SENTENCES], is_interrupted=True)
    search.steps.notes = ["watch is on"]
    search.steps.budget = 1

    search.steps.change = find_change({"eval_id": "day"}, {"eval_id": "day", "conversation": []})
    assert "the case was edited after the search began" in join(search.steps.note_line())
    assert search.steps.can_start
    assert not search.steps.can_continue

    search.steps.change = find_change({"eval_id": "day"}, None)
    assert join(search.steps.note_line()).endswith("renamed or deleted after the search began; watch is on")
    assert search.steps.can_continue
    assert search.steps.is_lost
    assert "2 executions, more than the budget of 1" in search.text
    search.finish()
    assert not search.steps.can_start


def test_a_problem_is_shown_with_the_command_that_has_the_options(search: Search) -> None:
    search.steps.fail("\x1b[31mno: use --config")

    assert "the search found nothing" in search.text
    assert "Options are those of the command `workbench shrink 'sets/lights.evalset.json:day [b]␛'`" in search.text
    assert "\x1b" not in search.text

    search.steps.case = CaseKey(target="t", eval_set="s.evalset.json", eval_id="at 8:00")
    assert "`workbench shrink s.evalset.json --case 'at 8:00'`" in search.text


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (CaseStatus.FAILED, ""),
        (CaseStatus.PASSED, "a passed, so there is no failure to shrink"),
        (CaseStatus.ERROR, "a ended in ERROR, which is not a failure to shrink: see the diff for its reason"),
        (CaseStatus.SKIPPED, "a: skipped; only a case that FAILED can be shrunk"),
        (None, "a has not run yet: r runs it; a failure can be shrunk then"),
    ],
)
def test_only_a_failed_case_can_be_shrunk(make_listed_project: Any, status: CaseStatus | None, expected: str) -> None:
    project = make_listed_project(["a"])
    if status is not None:
        project.store(a=status)

    assert explain_unshrinkable(project.state, project.key("a")) == expected
    assert explain_unshrinkable(project.state, project.key("gone")) == "no eval set lists this case any more"
