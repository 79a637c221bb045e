"""The proof of watching: random edits, and after each one every claim is compared with a fresh run of all cases.

A normal run makes about 90 edits, most of them with the decisions alone and one process per case. Before a merge,
`WORKBENCH_PROOF_EDITS=10000 pytest -n 2 tests/watch/watch_session/test_proof.py` spreads that many over all ways to
watch and to run, and prints a summary. `WORKBENCH_PROOF_SEED` selects other packages.
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
from tests.watch.strategy import DecisionsOnly, LiveWatch, RunAffected
from workbench.agents import agent_host, worker_host

pytestmark = pytest.mark.needs_fork

_TOTAL_EDITS = int(os.environ.get("WORKBENCH_PROOF_EDITS", "0"))
_FIRST_SEED = int(os.environ.get("WORKBENCH_PROOF_SEED", "1"))
_EDITS_OF_A_PACKAGE = 30
_PARTS = 4
"""Parts of each way if `WORKBENCH_PROOF_EDITS` is set. They may run in several processes."""
_WORKER = 'isolation = "worker"\nconcurrency = 1\n'
_SHARED_STATE = (
    "patched", "variable_set", "variable_all", "optional_helper", "registered", "all_names", "path_file", "guarded",
)  # fmt: skip
"""Recipes whose results depend on other cases in the same process, and are not predictable."""
_SHARING_EDITS = ("patched_from_outside", "import_added")
"""Edits after which they do: a module sets a constant of another one, or imports work in one order only."""


class Way(NamedTuple):
    """A way to watch and to run, with its number of parts in a normal run and the edits of each."""

    strategy: Callable[[], Strategy]
    mode: agent_host.Mode
    settings: str
    parts: int
    edits: int

    def make_options(self) -> dict[str, Any]:
        """Return the options of packages. If cases share processes, each depends on all that its process did."""
        if self.settings or self.mode == "once":
            sizes = {"tools": (6, 9), "cases": (6, 10)}
            return {**sizes, "without": _SHARED_STATE, "excluded": _SHARING_EDITS, "settings": self.settings}
        return {"cases": (8, 24) if _TOTAL_EDITS else (6, 14)}


WAYS = {
    "decisions-fork": Way(DecisionsOnly, "fork", "", 2, 20),
    "decisions-worker": Way(DecisionsOnly, "fork", _WORKER, 1, 10),
    "decisions-once-worker": Way(DecisionsOnly, "once", _WORKER, 1, 10),
    "decisions-once": Way(DecisionsOnly, "once", "", 1, 10),
    "live-fork": Way(LiveWatch, "fork", "", 1, 10),
    "live-worker": Way(partial(LiveWatch, pause=1.0), "fork", _WORKER, 1, 10),
    "affected-fork": Way(RunAffected, "fork", "", 1, 10),
    "affected-worker": Way(RunAffected, "fork", _WORKER, 1, 10),
}


def _list_parts() -> Iterator[Any]:
    for name, way in WAYS.items():
        parts = _PARTS if _TOTAL_EDITS else way.parts
        edits = -(-_TOTAL_EDITS // (len(WAYS) * parts)) if _TOTAL_EDITS else way.edits
        for part in range(parts):
            yield pytest.param(name, part, edits, id=f"{name}-{part}")


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    with quick_folder() as scratch, Oracle(scratch, remembers=True) as oracle:
        yield oracle


@pytest.mark.parametrize(("name", "part", "edits"), _list_parts())
async def test_the_watch_misses_no_case(
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
    monkeypatch.setattr(worker_host, "choose_mode", lambda: way.mode)
    packages = -(-edits // _EDITS_OF_A_PACKAGE)
    offset = list(WAYS).index(name) * _PARTS if _TOTAL_EDITS else 0  # parts of earlier ways, which use other packages
    first = _FIRST_SEED + (offset + part) * packages

    report = await prove(
        way.strategy(), oracle, tmp_path, range(first, first + packages), edits=-(-edits // packages),
        max_misses=100, **way.make_options(),
    )  # fmt: skip

    record_property("proof", [name, asdict(report.total), len(report.misses)])
    print(f"\n{name}, seeds {first} to {first + packages - 1}: {report}")
    assert not report.misses, "\n".join(map(str, report.misses))
    if way.strategy is DecisionsOnly and not way.settings and way.mode == "fork":
        assert not report.false_neutral_edits
        assert not report.useless_reruns, "\n".join(report.useless_reruns)
        assert edits < _EDITS_OF_A_PACKAGE or report.total.rerun_share - report.total.opaque_share <= 0.35
