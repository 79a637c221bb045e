"""Without a watch, the screen checks the shown verdicts: after saves, and after runs of other programs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.tui.screens.watch_controller.conftest import TOOLS, Shop
from workbench.tui.state.case_status import CaseState

Open = Callable[..., Any]

DEARER = TOOLS.replace('"amount": 1', '"amount": 2')


def run_in_another_program(shop: Shop, *arguments: str) -> None:
    """Run cases on the command line."""
    subprocess.run(
        [sys.executable, "-m", "workbench", "run", *arguments], cwd=shop.path, capture_output=True, check=False
    )


async def test_verdicts_of_another_program_show_on_the_open_screen(
    open_shop: Open, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.screens.watch_controller._LOOK", 0.2)
    async with open_shop(runs=False, watches=False) as watched:
        assert watched.get_state("refund_1") is CaseState.NOT_RUN

        await asyncio.to_thread(run_in_another_program, shop, "shop.evalset.json:refund_1,ship_1")
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.PASSED)
        assert watched.get_state("ship_1") is CaseState.PASSED
        assert watched.get_state("refund_2") is CaseState.NOT_RUN

        shop.save("tools.py", DEARER)
        await watched.until_true(lambda: watched.is_stale("refund_1"))
        await asyncio.to_thread(run_in_another_program, shop)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED)
        await watched.until_true(lambda: not watched.is_stale("refund_1"))
        assert watched.get_state("ship_2") is CaseState.PASSED
