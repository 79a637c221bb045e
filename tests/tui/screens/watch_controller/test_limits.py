"""Changes beyond the limits, and ten thousand cases."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.tui.screens.watch_controller.conftest import TOOLS, Shop
from workbench.tui.state.case_status import CaseState
from workbench.tui.state.watch_state import WatchMode

DEARER = TOOLS.replace('"amount": 1', '"amount": 2')


def test_no_module_of_the_watch_is_loaded_at_the_start() -> None:
    code = (
        "import sys, workbench.tui.app; "
        "print([name for name in sys.modules if name.startswith(('watchfiles', 'workbench.watch'))])"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"


async def test_jobs_beyond_the_limits_wait_for_a_key(open_shop: Callable[..., Any], shop: Shop) -> None:
    shop.save("workbench.toml", f"{(shop.path / 'workbench.toml').read_text()}[watch]\nmax_cases_per_change = 1\n")
    async with open_shop() as watched:
        await watched.press("O")
        shop.save("tools.py", DEARER)
        await watched.until("2 of 4 to run", "2 cases are held back: alt+r runs them anyway")
        await watched.until("not run automatically: 2 cases, more than max_cases_per_change = 1")
        assert watched.get_state("refund_1") is CaseState.PASSED
        assert watched.is_stale("refund_1")

        await watched.press("alt+r")

        await watched.until_true(lambda: watched.get_state("refund_2") is CaseState.FAILED)
        await watched.screen.until_gone("held back")
        assert not watched.is_stale("refund_1")


async def test_ten_thousand_cases_can_be_watched(open_app: Callable[..., Any], shop: Shop) -> None:
    shop.save_cases("refund_1", "refund_2", *(f"ship_{number}" for number in range(10_000)))
    async with open_app(shop.path) as screen:
        await screen.until("10,002 cases")
        state = screen.state
        await screen.press("j", "j", "r")
        await screen.until("1/1")
        for _ in range(1_000):
            if not state.is_busy:
                break
            await screen.pilot.pause(0.02)
        await screen.press("w")
        for _ in range(1_500):
            if state.watch.mode is WatchMode.ON and state.watch.total:
                break
            await screen.pilot.pause(0.02)
        assert state.watch.total == 10_002
        assert state.watch.stale == 0  # a case without a run is not stale

        shop.save("tools.py", DEARER)

        await screen.until("why: tools.py: refund() changed", "finished")
        assert state.progress.total == 1
        await screen.press("j")
        assert state.selected_case.eval_id == "refund_2"
