"""Keys that arrive faster than the screen is drawn, as over SSH: each key acts on the result of the keys before it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.events import Key

from tests.tui.conftest import type_at_once
from workbench.engine.plan import Selection
from workbench.tui.panes.chat_pane import Prompt
from workbench.tui.widgets.inputs import FilterInput

NASTY_RHYTHM = ["j"] * 7 + ["k"] * 2


@pytest.mark.parametrize(
    ("keys", "expected_case"),
    [(["G", "r"], "case_9"), ([*NASTY_RHYTHM, "r"], "case_3"), (["j", "j", "space", "j", "r"], "case_0")],
)
async def test_a_run_uses_the_selection_of_the_keys_before_it(
    open_fake_app: Any, backend: Any, make: Any, keys: list[str], expected_case: str
) -> None:
    backend.add(*(make.case(f"case_{number}", make.turn("Hi", "Hello")) for number in range(10)))
    async with open_fake_app(backend) as screen:
        await screen.until("case_9", "10 cases")
        for key in keys:
            screen.app.post_message(Key(key, key if len(key) == 1 else " "))
        await screen.until("running")

    assert backend.requested_runs == [[Selection(eval_set="sets/lights.evalset.json", cases=(expected_case,))]]


async def test_keys_go_to_the_field_that_a_key_before_them_opens(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("3 cases")
        type_at_once(screen, "/dDrun")
        await screen.until("filter: dDrun")

        await screen.press("escape", "j", "j")
        type_at_once(screen, "Nfirst")
        await screen.until("Id of the new case")
        await screen.until("  first  ")

    assert lights.requested_runs == []


async def test_keys_keep_their_order_in_a_text_that_takes_long_to_draw(
    open_fake_app: Any, lights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.app._LONGEST_KEY", 0.0001)
    async with open_fake_app(lights) as screen:
        await screen.until("3 cases")
        await screen.press("6")
        prompt = screen.app.screen.query_one(Prompt)
        for key in ("a", "ctrl+j", "b", "left", "c"):
            screen.app.post_message(Key(key, key if len(key) == 1 else None))
        for _ in range(200):
            await screen.pilot.pause(0.01)

        assert prompt.text == "a\ncb"


@pytest.mark.parametrize(("asks", "keys"), [(True, ["R", "enter"]), (False, ["R", "slash", "l", "a", "m", "p"])])
async def test_keys_wait_while_a_run_is_planned_and_belong_to_its_dialog_if_one_opens(
    open_fake_app: Any, lights: Any, monkeypatch: pytest.MonkeyPatch, asks: bool, keys: list[str]
) -> None:
    lights.asks_first = asks
    is_planned, plan = asyncio.Event(), lights.plan

    async def plan_slowly(*args: Any, **options: Any) -> Any:
        await is_planned.wait()
        return await plan(*args, **options)

    monkeypatch.setattr(lights, "plan", plan_slowly)
    async with open_fake_app(lights) as screen:
        await screen.until("3 cases")
        for key in keys:
            screen.app.post_message(Key(key, "/" if key == "slash" else key if len(key) == 1 else None))
        await screen.until("planning the run")
        await screen.pilot.pause(0.2)
        assert "filter: " not in screen.text and "lights" in screen.text

        is_planned.set()
        await screen.until("running", *([] if asks else ["filter: lamp"]))
    assert len(lights.started_runs) == 1


async def test_a_run_that_is_started_from_a_field_shows_its_plan(open_fake_app: Any, lights: Any) -> None:
    lights.asks_first = True
    async with open_fake_app(lights) as screen:
        await screen.until("3 cases")
        await screen.press("slash", "a", "f9")
        await screen.until("run?")


async def test_keys_typed_during_the_start_do_not_land_in_the_filter(
    open_fake_app: Any, backend: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    focus_events: list[FilterInput] = []
    monkeypatch.setattr(FilterInput, "on_focus", lambda self, event: focus_events.append(self), raising=False)
    backend.add(make.case("case_0", make.turn("Hi", "Hello")))

    async with open_fake_app(backend) as screen:
        await screen.until("case_0")
        assert focus_events == []

        await screen.press("slash")
        assert len(focus_events) == 1
