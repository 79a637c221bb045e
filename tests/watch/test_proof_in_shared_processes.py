"""The proof where cases share processes, so that each depends on all that its process did.

With `WORKBENCH_PROOF_EDITS` over twice as many packages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.watch.generated.harness import prove
from tests.watch.generated.oracle import Oracle, quick_folder
from tests.watch.generated.packages import ENVIRONMENT
from tests.watch.strategy import Affected
from workbench.agents import host

pytestmark = pytest.mark.needs_fork

_PACKAGES = 4 if "WORKBENCH_PROOF_EDITS" in os.environ else 2
_ONE_AT_A_TIME = '[run]\nisolation = "worker"\nconcurrency = 1\n'
_OF_OTHERS = ("patched", "variable_set", "variable_all", "optional_helper", "registered", "all_names")
"""Tools that show what other cases did in the process: nobody can say what such a case gives."""


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    with quick_folder() as scratch, Oracle(scratch, remembers=True) as oracle:
        yield oracle


@pytest.mark.parametrize(
    ("mode", "settings"), [("fork", _ONE_AT_A_TIME), ("once", _ONE_AT_A_TIME), ("once", "")], ids=str
)
async def test_no_case_is_missed(
    mode: host.Mode, settings: str, tmp_path: Path, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(host, "_default_mode", lambda: mode)
    sizes: dict[str, Any] = {"tools": (6, 9), "cases": (6, 10), "without": _OF_OTHERS, "settings": settings}

    report = await prove(Affected(), oracle, tmp_path, range(_PACKAGES), edits=25, misses_at_most=100, **sizes)

    print(f"\n{mode}: {report}")
    assert not report.misses, "\n".join(map(str, report.misses))
