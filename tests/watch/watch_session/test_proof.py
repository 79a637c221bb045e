"""The proof of watching: edits made at random, and after each one every claim held against a fresh run of all cases.

In a normal run some 680 edits, most of them with the decisions alone and a process for each case. Before anything
lands: `WORKBENCH_PROOF_EDITS=10000 pytest -n 2 tests/watch/watch_session/test_proof.py` spreads that many over all
ways to watch and to run, and tells at the end what came of it. `WORKBENCH_PROOF_SEED` asks for other packages than
those of every day.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.watch.generated.harness import Strategy, prove
from tests.watch.generated.oracle import Oracle, quick_folder
from tests.watch.generated.packages import ENVIRONMENT
from tests.watch.strategy import Affected, Live, RunAffected
from workbench.agents import agent_host, worker_host

pytestmark = pytest.mark.needs_fork

_WANTED = int(os.environ.get("WORKBENCH_PROOF_EDITS", "0"))
_FIRST_SEED = int(os.environ.get("WORKBENCH_PROOF_SEED", "1"))
_EDITS_OF_A_PACKAGE = 30
_PARTS = 4
"""Of each way, where so many edits are wanted; they may run in several processes."""
_WORKER = 'isolation = "worker"\nconcurrency = 1\n'
_OF_OTHERS = ("patched", "variable_set", "variable_all", "optional_helper", "registered", "all_names", "path_file")
"""Tools that show what other cases did in the process: nobody can say what such a case gives."""


class Way(NamedTuple):
    """A way to watch and to run, and how many edits it gets every day, as parts and edits of each."""

    strategy: Callable[[], Strategy]
    mode: agent_host.Mode
    settings: str
    parts: int
    edits: int

    def sizes(self) -> dict[str, Any]:
        """What packages are like. Where cases share processes each depends on all that its process did."""
        if self.settings or self.mode == "once":
            return {"tools": (6, 9), "cases": (6, 10), "without": _OF_OTHERS, "settings": self.settings}
        return {"cases": (8, 24) if _WANTED else (6, 14)}


WAYS = {
    "decisions-fork": Way(Affected, "fork", "", 8, 60),
    "decisions-worker": Way(Affected, "fork", _WORKER, 1, 50),
    "decisions-once-worker": Way(Affected, "once", _WORKER, 1, 50),
    "decisions-once": Way(Affected, "once", "", 1, 50),
    "live-fork": Way(Live, "fork", "", 1, 10),
    "live-worker": Way(partial(Live, pause=1.0), "fork", _WORKER, 1, 10),
    "affected-fork": Way(RunAffected, "fork", "", 1, 10),
    "affected-worker": Way(RunAffected, "fork", _WORKER, 1, 10),
}


def _parts() -> Iterator[Any]:
    for name, way in WAYS.items():
        parts = _PARTS if _WANTED else way.parts
        edits = -(-_WANTED // (len(WAYS) * parts)) if _WANTED else way.edits
        for part in range(parts):
            yield pytest.param(name, part, edits, id=f"{name}-{part}")


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    with quick_folder() as scratch, Oracle(scratch, remembers=True) as oracle:
        yield oracle


@pytest.mark.parametrize(("name", "part", "edits"), _parts())
async def test_no_case_is_missed(
    name: str,
    part: int,
    edits: int,
    tmp_path: Path,
    oracle: Oracle,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    way = WAYS[name]
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(worker_host, "_choose_mode", lambda: way.mode)
    packages = -(-edits // _EDITS_OF_A_PACKAGE)
    others = list(WAYS).index(name) * _PARTS if _WANTED else 0  # parts of other ways, which have packages of their own
    first = _FIRST_SEED + (others + part) * packages

    report = await prove(
        way.strategy(), oracle, tmp_path, range(first, first + packages), edits=-(-edits // packages),
        misses_at_most=100, **way.sizes(),
    )  # fmt: skip

    record_property("proof", [name, asdict(report.total), len(report.misses)])
    print(f"\n{name}, seeds {first} to {first + packages - 1}: {report}")
    assert not report.misses, "\n".join(map(str, report.misses))
    if way.strategy is Affected and not way.settings and way.mode == "fork":
        assert not report.wrongly_neutral
        assert not report.in_vain, "\n".join(report.in_vain)
        assert edits < _EDITS_OF_A_PACKAGE or report.total.rerun_share - report.total.unfollowed_share <= 0.35
