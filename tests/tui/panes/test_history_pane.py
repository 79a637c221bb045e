"""The history pane, and two runs side by side, on real projects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from workbench.tui.dialogs.results_screen import ComparingScreen
from workbench.tui.screen_context import CaseWanted, SessionWanted

Open = Callable[..., Any]


async def test_executions_of_a_case_are_newest_first_with_their_criteria(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on")
    project.run()
    project.set_failing_prompts("on")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("0/1")
        await screen.press("j", "j", "5")
        text = await screen.until("2 executions, old to new", "criteria", "workbench run lights")
        right = "".join(line.rpartition("││")[2].strip(" │") for line in text.splitlines())
        assert "test_config.json" in right  # independent of where its long path wraps
        rows = [line for line in text.splitlines() if "tool_trajectory_avg_score" in line and "20" in line]
        assert "✗ tool_trajectory_avg_score 0" in rows[0]
        assert "✓ tool_trajectory_avg_score 1" in rows[1]


async def test_the_execution_whose_verdict_counts_now_is_marked(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")
    project.run()
    project.set_failing_prompts("on")
    project.run()

    def find_marks(screen: Any) -> list[str]:
        rows = [line for line in screen.text.splitlines() if "20" in line and "tool_trajectory_avg_score" in line]
        return ["→" if "→" in row.partition("20")[0] else "" for row in rows]

    async def wait_for_marks(screen: Any, *wanted: str) -> None:
        for _ in range(500):
            if find_marks(screen) == list(wanted):
                return
            await screen.pilot.pause(0.02)
        assert find_marks(screen) == list(wanted)

    async with open_app(project.path) as screen:
        await screen.until("0/1")
        await screen.press("j", "j", "5")
        await screen.until("2 executions", "→ this run gave the current verdict")
        await wait_for_marks(screen, "→", "")

        project.set_failing_prompts("nothing")
        await screen.until("the current verdict, which is stale")
        (project.path / "broken.txt").unlink()  # as before the first run
        await wait_for_marks(screen, "", "→")
        await screen.press("j")
        await screen.until("→ this run gave the current verdict")
        assert "which is stale" not in screen.text


async def test_changes_between_runs_and_since_the_last_run_are_shown(
    make_history_project: Open, open_app: Open, make_case: Open
) -> None:
    project = make_history_project("on")
    project.run()
    (project.path / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 0.5}}')
    project.run()
    changed = {"eval_set_id": "lights", "eval_cases": [make_case("on", "another")]}
    (project.path / "lights.evalset.json").write_text(json.dumps(changed))

    async with open_app(project.path) as screen:
        await screen.until("● on")
        await screen.press("j", "j", "5")
        await screen.until(
            "changed since the previous run",
            "expectations of the case, or criteria",
            "threshold 1.00 became threshold",
            "changed since this run",
            "agent input",
        )


async def test_enter_opens_an_execution_and_escape_returns(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")
    project.set_failing_prompts("on")
    project.run()
    project.set_failing_prompts("nothing")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "5")
        await screen.until("2 executions")
        await screen.press("j", "enter")
        await screen.until("pong")
        wanted = next(message for message in screen.messages if isinstance(message, SessionWanted))
        assert wanted.pinned.result.status.value == "FAILED"
        await screen.press("4")
        await screen.until("needs at least 1.00", "score 0.00")
        await screen.press("escape")
        await screen.until("score 1")


async def test_a_set_has_its_runs_with_pass_rates_and_one_is_shown_as_a_table(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on", "off")
    project.run()
    project.set_failing_prompts("on")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("1/2")
        await screen.press("j", "5")
        await screen.until("2 runs, old to new", "50%", "100%", "pass rate", "criteria")
        await screen.press("y")
        await screen.until("copied")
        await screen.press("enter")
        await screen.until("results of run", "2 rows", "1 failed")
        await screen.press("escape", "j", "T")
        await screen.until("results of run", "2 passed")
        await screen.press("j", "enter")
        await screen.until("off · lights")
        assert {message.key.eval_id for message in screen.messages if isinstance(message, CaseWanted)} == {"off"}


async def test_two_runs_are_compared_and_a_marked_run_takes_precedence(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on", "off", "dim")
    project.run()
    project.set_failing_prompts("dim")
    project.run()
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("2/3")
        await screen.press("j", "5")
        await screen.until("3 runs")
        await screen.press("=")
        await screen.until("3 same")
        await screen.press("escape", "G", "m", "g", "=")
        text = await screen.until("1 regression, 2 same", "▼ regression", "dim")
        assert text.index("▼ regression") < text.index("= same")
        assert "tool_trajectory_avg_score  1.00 → 0.00 (-1.00)" in text

        await screen.press("slash", *"off")
        await screen.until("filter: off", "= same")
        await screen.until_gone("▼ regression")
        await screen.press("escape")
        await screen.until("▼ regression")

        await screen.press("f")
        await screen.until("only the 1 whose verdict flipped")
        assert "= same" not in screen.text
        await screen.press("x")
        await screen.until("1 fix, 2 same", "▲ fix")
        await screen.press("f", "enter")
        await screen.until("dim · lights")
        assert not isinstance(screen.app.screen, ComparingScreen)


async def test_a_run_of_one_case_is_compared_with_a_run_of_all(make_history_project: Open, open_app: Open) -> None:
    make_history_project("zeta", *(f"case_{number}" for number in range(9))).run()
    make_history_project("zeta").run()

    async with open_app(make_history_project("zeta").path) as screen:
        await screen.until("1/1")
        await screen.press("j", "5")
        await screen.until("2 runs")
        await screen.press("=")
        text = await screen.until("= same", "▸ 9 cases only in the run before")
        assert text.index("zeta") < text.index("9 cases") and "case_3" not in text

        await screen.press("G", "enter")
        await screen.until("▾ 9 cases only in the run before", "case_3")
        await screen.press("enter")
        await screen.until_gone("case_3")


async def test_the_oldest_run_has_no_earlier_run_to_compare_with(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "5")
        await screen.until("1 execution")
        await screen.press("=")
        await screen.until("there is no earlier run to compare with")


async def test_a_project_without_history_says_so_and_follows_its_first_run(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on")

    async with open_app(project.path) as screen:
        await screen.until("not run")
        await screen.press("j", "j", "5")
        await screen.until("There is no history yet")
        assert not (project.path / ".workbench" / "history.db").exists()
        await screen.press("r")
        await screen.until("1 execution")
