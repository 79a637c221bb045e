"""The review on the screen of a real project: every key does its documented action."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tui.differing_project import open_diff, read_calls


async def test_the_review_accepts_skips_undoes_and_sums_up(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.press("v")
        await screen.until("review 1 of 3  one  lights.evalset.json")

        await screen.press("a")
        await screen.until("accepted in part", "difference 1 of 1")
        await screen.press("A")
        await screen.until("review 2 of 3", "1 accepted")
        await screen.press("u")
        await screen.until("review 1 of 3", "accepted in part", "difference 1 of 1")
        await screen.press("s")
        await screen.until("review 2 of 3")
        await screen.press("}", "{", "d", "p")
        await screen.until("review 1 of 3")
        await screen.press("n", "A")
        await screen.until("review 3 of 3  broken", "lights.evalset.json", "no such lamp")
        await screen.press("A")
        await screen.until("refused", "not accepted: the case ended in an error")
        await screen.press("s")
        await screen.until("review is over", "3 cases reviewed", "accepted  lights.evalset.json:two")
        await screen.press("escape")
        await screen.until("✓ two", "✗ one")
    assert read_calls(project, 0)[1]["args"]["n"] == 2
    assert len(read_calls(project, 1, 1)) == 2


async def test_no_key_accepts_anything_after_the_end_of_the_review(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.press("v")
        await screen.until("review 1 of 3", "a accept")
        await screen.press("s", "s", "s")
        await screen.until("review is over")
        await screen.until_gone("a accept")

        await screen.press("a", "A", "e")
        await screen.pilot.pause(0.1)

        assert "review is over" in screen.text
        assert [notice.text for notice in screen.state.problems.messages] == []


async def test_the_review_shows_the_scores_after_each_acceptance(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.press("v")
        await screen.until("review 1 of 3", "✗ exact_match  0", "difference 1 of 2")

        await screen.press("J", "a")
        await screen.until("accepted in part", "✓ exact_match  1")

        await screen.press("u")
        await screen.until("✗ exact_match  0", "difference 1 of 2")


async def test_undo_in_the_review_does_not_undo_what_another_program_wrote(open_app: Any, project: Path) -> None:
    file = project / "lights.evalset.json"
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.press("v")
        await screen.until("review 1 of 3", "difference 1 of 2")
        before = file.read_bytes()
        await screen.press("A")
        await screen.until("review 2 of 3", "1 accepted")
        file.write_bytes(before)

        await screen.press("u")

        await screen.until("lights.evalset.json changed after one was accepted", "review 2 of 3")
        assert file.read_bytes() == before


async def test_keys_typed_ahead_in_the_review_act_on_the_following_cases(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.press("v")
        await screen.until("review 1 of 3", "difference 1 of")

        review = screen.app.screen
        for action in (review.action_accept_case, review.action_accept_case, review.action_skip):
            action()

        await screen.until("review is over", "2 accepted", "1 skipped")
        await screen.press("escape")
        await screen.until("✓ one", "✓ two")


async def test_the_review_continues_after_a_visit_to_the_editor(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.press("v")
        await screen.until("review 1 of 3")
        await screen.press("s")
        await screen.until("review 2 of 3")

        await screen.press("e")
        await screen.until("v continues the review", "two · lights")
        await screen.press("escape", "v")
        await screen.until("review 2 of 3")
        await screen.press("escape")
        await screen.until("review is over")
        await screen.press("escape")
        await screen.until("1 Case")
