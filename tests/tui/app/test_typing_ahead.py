"""Keys that arrive faster than the screen is drawn, as over SSH: each key acts on the result of the keys before it."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import Key

from workbench.engine.plan import Selection
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
