"""The rows and texts of the search in an instruction, without Textual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.tui.state.spans import join
from workbench.engine.ablation import Ablated, AblationExecutions, BlockEffect, Effect, InstructionBlock
from workbench.engine.case_variants import Variant
from workbench.model.results import CaseStatus, Failure, FailureKind, MetricResult, MetricStatus
from workbench.tui.state.browser_list import CaseContent
from workbench.tui.state.project_state import OpenedProject
from workbench.tui.state.text_layout import Style, render_blocks
from workbench.tui.state.variant_steps import AblationSteps, explain_no_ablation

TEXTS = [
    "You switch lights.\nBe 友好 [/b].",
    "Always use \x1b[31mthe tool.",
    "No key: api_key=sk-abcdefghijklmnopqrstuvwxyz0123",
]
BLOCKS = [
    InstructionBlock("house", "instruction", first, last, text)
    for (first, last), text in zip([(1, 2), (4, 4), (5, 5)], TEXTS, strict=True)
]
BLOCKS.append(InstructionBlock("helper", "instruction", 1, 1, "Help."))


class Search:
    """A search in two instructions."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self.key = make.key("day [b]\x1b")
        self.steps = AblationSteps(self.key)
        self.steps.begin()
        self.effects = [BlockEffect(block=block, effect=Effect.UNTRIED) for block in BLOCKS]

    def execute(self, *scores: float) -> AblationExecutions:
        """Return executions with these scores, which fail below 0.5."""
        turn = self._make.turn("Light!", "on \x1b[31m")
        variants = []
        for score in scores:
            status = MetricStatus.PASSED if score >= 0.5 else MetricStatus.FAILED
            metric = MetricResult(name="response_match_score", score=score, threshold=0.5, status=status)
            result = self._make.result(self.key, CaseStatus[status.name], turn, metrics=[metric])
            variants.append(Variant(self._make.case("day", turn), result))
        return AblationExecutions(variants=variants)

    def add(self, number: int, effect: Effect, *scores: float, changed: Sequence[str] = ()) -> None:
        found = BlockEffect(block=BLOCKS[number], effect=effect, without=self.execute(*scores), changed=changed)
        self.effects[number] = found
        self.steps.add(found)

    def finish(self, **changes: Any) -> None:
        whole = changes.pop("whole", self.execute(0.9, 1.0, 1.0))
        self.steps.finish(Ablated(case=self.key, whole=whole, effects=self.effects, executions=9, **changes))

    @property
    def text(self) -> str:
        """Everything that the screen shows."""
        rows = [self.steps.line(index, 100) for index in range(len(self.steps))]
        details = render_blocks(self.steps.blocks(), width=200, side_by_side=False)
        return "\n".join(map(join, [*self.steps.header_lines(), *rows, *details]))


@pytest.fixture
def search(make: Any) -> Search:
    return Search(make)


def test_the_text_of_the_instruction_shows_the_effect_of_each_part(search: Search) -> None:
    assert "The agent is asked for its instruction first." in search.text
    search.steps.set_parts(BLOCKS)
    search.steps.try_part("the whole instruction", None)
    assert "▸ the whole instruction: 4 paragraphs" in search.text
    search.steps.set_whole(search.execute(0.9, 1.0, 1.0))
    search.add(0, Effect.VERDICT, 0.0, 0.25, changed=["response_match_score"])
    search.steps.try_part("without line 4 of house", BLOCKS[1])

    text = search.text

    for line in (
        "which paragraphs of the instruction matter?   nothing of the project is written",
        " 3 of 3 passed with the whole instruction",
        "0 of 60 executions   trying without line 4 of house …",
        " ▸ 1 of 4 paragraphs matters so far: verdict 1; 3 not tried",
        " house, instruction",
        " ■    1  the verdict changes  You switch lights.",
        " ■                            Be 友好 [/b].",
        " ◐    4  trying …             Always use ␛[31mthe tool.",
        " helper, instruction",
        "      1                       Help.",
        "■ the verdict changes   house, instruction, lines 1-2",
        "2 of 2 failed without it",
        "response_match_score  0.90 to 1.00 → 0.00 to 0.25",
        "turn 1 · user  Light!",
    ):
        assert line in text
    assert "\x1b" not in text
    assert "sk-abc" not in text
    styles = {piece.style for piece in search.steps.line(3, 100)}
    assert Style.FAILED in styles


def test_the_cursor_goes_from_part_to_part_and_follows_the_newest_effect(search: Search) -> None:
    search.steps.set_parts(BLOCKS)
    search.add(0, Effect.NONE, 1.0)
    assert search.steps.selected_effect is not None
    assert search.steps.selected_effect.block == BLOCKS[0]

    search.steps.move(1)
    assert search.steps.selected_effect.block == BLOCKS[1]
    search.add(1, Effect.NONE, 1.0)
    search.add(2, Effect.SCORES, 0.6)
    assert search.steps.selected_effect.block == BLOCKS[1]
    search.steps.move_to(3)  # a click on the second line of the first part
    assert search.steps.selected_effect.block == BLOCKS[0]
    search.steps.move_to(99)
    assert search.steps.selected_effect.block == BLOCKS[3]
    assert search.steps.selected_variant is None
    search.steps.move_to(0)
    assert search.steps.selected_effect is None


def test_a_search_that_ended_early_says_why_and_continues(search: Search) -> None:
    search.steps.set_parts(BLOCKS)
    search.add(0, Effect.NONE, 1.0, 1.0, 1.0)
    search.steps.budget = 9
    search.steps.changed_files = ["prompt.md"]
    assert "prompt.md changed during the search" in join(search.steps.note_line())
    search.finish(changed_files=["agent.py"], unknown=["instruction of idle is computed by a function at run time"])

    assert "9 of 9 executions   not tried (the budget was used up): 3 paragraphs   up to 3 for each" in search.text
    assert "agent.py changed during the search: its executions used different code" in join(search.steps.note_line())
    assert "not tried: instruction of idle is computed" in search.text
    assert search.steps.has_result and not search.steps.can_continue
    search.steps.budget = 10
    assert not search.steps.can_continue  # executions of different code cannot be compared
    search.finish(error="503 overloaded \x1b")
    assert "not tried (the whole instruction ends in ERROR now, too): 3 paragraphs" in search.text
    search.steps.move_to(0)
    assert "503 overloaded ␛" in search.text
    search.finish(is_interrupted=True)
    assert search.steps.can_continue
    assert "not tried (stopped): 3 paragraphs" in search.text
    search.steps.begin(is_continued=True)
    assert "no difference" in search.text


def test_a_score_that_only_one_side_has_is_shown(search: Search, make: Any) -> None:
    search.steps.set_parts(BLOCKS)
    unscored = make.result(search.key, CaseStatus.PASSED)
    search.steps.set_whole(AblationExecutions(variants=[Variant(make.case("day"), unscored)]))
    search.add(0, Effect.SCORES, 1.0, changed=["response_match_score"])

    assert "response_match_score  no score → 1.00" in search.text


def test_a_flaky_case_and_one_that_ends_in_error_are_not_explained(search: Search, make: Any) -> None:
    search.steps.set_parts(BLOCKS)
    search.finish(whole=search.execute(1.0, 0.0))
    assert "1 of 2 passed, 1 failed with the whole instruction; the case is flaky" in search.text

    failure = Failure(kind=FailureKind.AGENT, message="kaboom \x1b[31m")
    result = make.result(search.key, CaseStatus.ERROR, failure=failure)
    search.finish(whole=AblationExecutions(variants=[Variant(make.case("day"), result)]))
    assert "▸ ERROR with the whole instruction" in search.text
    assert "1 of 1 error, so no part was left out" in search.text
    assert "kaboom ␛[31m" in search.text
    assert not search.steps.can_continue
    search.steps.fail("house: no such agent\x1b")
    assert "house: no such agent␛" in search.text
    assert "\x1b" not in search.text


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("function", ""),
        ("recorded", "a is recorded: no agent can be run with another instruction"),
        ("http", "an agent of kind http does not show its instruction"),
        ("", "a: no agent belongs to it, so there is no instruction"),
    ],
)
def test_each_case_whose_instruction_is_unknown_has_its_reason(
    make_listed_project: Any, kind: str, expected: str
) -> None:
    project = make_listed_project(["a"])
    key = project.key("a")
    targets = {key.target: (("kind", kind),)} if kind else {}
    project.state.project = OpenedProject(root="/", targets=targets, sets=())

    assert explain_no_ablation(project.state, key) == expected
    assert explain_no_ablation(project.state, project.key("gone")) == "no eval set lists this case any more"
    if kind == "function":
        project.state.browser.update_contents([CaseContent(key, "a", (), ("x", "y"))])
        assert explain_no_ablation(project.state, key).startswith("a is a scenario, whose user says something else")
