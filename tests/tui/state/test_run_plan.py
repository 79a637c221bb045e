"""Judge models on the screen: their names, the estimated cost before a run, and the actual cost after it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine.judged import METRIC, make_judged_folder, serve_judge, verdict
from tests.llm.servers import Call, HttpResponse, gemini_error
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.plan_cost import Estimate, Replays
from workbench.engine.workspace import Workspace
from workbench.model.results import ModelSpending
from workbench.model.run_events import ModelsAsked
from workbench.model.target import ModelMode
from workbench.tui.state.case_filter import Order
from workbench.tui.state.run_plan import PlannedRun, describe_plan, sort_by_list
from workbench.tui.state.run_progress import RunProgress, format_judge_line, format_summary
from workbench.tui.state.text_layout import Line, Paragraph

ASKED = ModelSpending(model="gemini-2.5-flash", calls=12, cached=4, input_tokens=3000, output_tokens=1100, cost=0.0031)
SELECTED = [Selection(eval_set="set.evalset.json")]


def join_text(line: Line) -> str:
    return "".join(piece.text for piece in line)


@pytest.mark.parametrize(
    ("judges", "width", "expected"),
    [
        ((), 140, " judge: none "),
        (("gemini-2.5-flash",), 140, " judge: gemini-2.5-flash 12 judge calls (+4 cached) $0.0031 4.1k tokens "),
        (("gemini-2.5-flash",), 80, " judge: gemini-2.5-flash "),
        (("gemini-2.5-flash",), 59, ""),
        (("a", "b"), 80, " judge: a, b "),
        (("a", "b", "c"), 80, " judge: 3 models "),
        (("openai/a-very-long-name-of-a-model",), 80, " judge: openai/a-very-long-na… "),
    ],
)
def test_the_header_names_the_judges(judges: tuple[str, ...], width: int, expected: str) -> None:
    assert join_text(format_judge_line(judges, [ASKED], width=width)) == expected


def test_an_unknown_cost_is_shown_as_unknown() -> None:
    unknown = ASKED.model_copy(update={"cost": None, "cost_unknown": "nobody knows"})

    assert "12 judge calls (+4 cached) cost unknown" in join_text(
        format_judge_line({"m"}, [ASKED, unknown][1:], width=140)
    )


def test_the_run_line_shows_the_model_calls_so_far() -> None:
    progress = RunProgress("r1", 2, began=0.0)

    progress.apply(ModelsAsked(models=(ASKED,)), now=1.0)

    expected = "12 judge calls (+4 cached) $0.0031 4.1k tokens"
    assert expected in join_text(progress.format_line(now=1.0, width=140))
    assert expected in join_text(format_summary(progress, now=1.0, width=120)[1])


async def test_a_verdict_with_missing_samples_is_marked_as_long_as_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_app: Any
) -> None:
    folder = make_judged_folder(tmp_path, good="good")
    answers = itertools.count()

    def answer(call: Call) -> HttpResponse:
        return gemini_error(503, "down") if next(answers) == 1 else verdict(call)

    with serve_judge(monkeypatch, answer):
        async with open_app(folder.root) as screen:
            await screen.until("good")
            await screen.press("R")
            await screen.until("about 2 calls")
            await screen.press("enter")
            await screen.until("good †")
            await screen.press("j", "j")
            await screen.until("✓ PASSED †", f"† {METRIC}: judged by 1 of 2 samples")
        async with open_app(folder.root) as screen:
            await screen.until("good †")
            await screen.press("j", "j", "t")
            await screen.until("✓ passed †")
            await screen.press("escape", "R")
            await screen.until("about 2 calls")
            await screen.press("enter")  # failed questions are sent to the judge again
            await screen.until_gone("†")


def test_the_plan_shows_the_estimated_cost_of_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_judged_folder(tmp_path, settings="max_calls = 50\nmax_cost = 0.25\n", good="good", bad="bad")
    with serve_judge(monkeypatch), Workspace.open(folder.root) as workspace:
        plan = workspace.plan(SELECTED, RunOptions())

        def render_plan() -> str:
            cost = workspace.estimate(plan)
            planned = PlannedRun(SELECTED, RunOptions(), None, plan, cost, True, folder=tmp_path)
            return "\n".join(
                join_text(block.pieces) for block in describe_plan(planned) if isinstance(block, Paragraph)
            )

        before = render_plan()
        list(workspace.start(plan).iter_events())
        after = render_plan()

    assert "gemini-2.5-flash: about 4 calls; cached answers cost nothing; tokens unknown: no earlier run" in before
    assert "gemini-2.5-flash: about 4 calls; cached answers cost nothing; about 48 tokens, about $0.0000" in after
    assert "at most   50 model calls, $0.25 for models" in after


def test_the_plan_says_what_is_replayed_and_how_long_each_part_takes(tmp_path: Path) -> None:
    folder = make_judged_folder(tmp_path, good="good", bad="bad")
    with Workspace.open(folder.root) as workspace:
        plan = workspace.plan(SELECTED, RunOptions())
        replays = Replays(mode=ModelMode.AUTO, recorded=1, of=2)
        cost = replace(workspace.estimate(plan), replays=replays, live_jobs=1, replayed_seconds=Estimate(2.0, 1, 1))
        planned = PlannedRun(SELECTED, RunOptions(), None, plan, cost, True, folder=tmp_path)
        lines = [join_text(block.pieces) for block in describe_plan(planned) if isinstance(block, Paragraph)]

    assert f"models    ↺ {replays}" in lines
    assert "takes     no estimate: no earlier live run of these cases" in lines
    assert "and       about 2.00 s, from earlier replayed runs of 1 of 1 case" in lines


def test_a_run_has_the_order_of_the_list_with_the_visible_cases_first(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["c", "a", "d", "b"])
    planned: Any = [SimpleNamespace(key=project.key(eval_id)) for eval_id in ("c", "a", "d", "b")]

    def list_ids(*visible: str) -> list[str]:
        found = sort_by_list(planned, project.browser, first=frozenset(map(project.key, visible)))
        return [case.key.eval_id for case in found]

    assert list_ids("d", "b") == ["d", "b", "c", "a"]
    project.browser.sort(Order.ID)
    assert list_ids() == ["a", "b", "c", "d"]
    assert list_ids("c", "d") == ["c", "d", "a", "b"]
