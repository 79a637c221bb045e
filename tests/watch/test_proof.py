"""The proof of watching: edits made at random, and after each one every claim held against a fresh run of all cases.

In a normal run 480 edits, over packages of their own in each test. `WORKBENCH_PROOF_EDITS` asks for more (2,000
before anything lands; beyond that the packages are larger, too), `WORKBENCH_PROOF_SEED` for other packages than those
of every day.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.watch.generated.harness import Report, prove
from tests.watch.generated.oracle import Oracle, quick_folder
from tests.watch.generated.packages import ENVIRONMENT
from tests.watch.strategy import Affected

pytestmark = pytest.mark.needs_fork

_TESTS = 8
_EDITS_OF_A_PACKAGE = 30
_WANTED = int(os.environ.get("WORKBENCH_PROOF_EDITS", "480"))
_FIRST_SEED = int(os.environ.get("WORKBENCH_PROOF_SEED", "1"))
_PACKAGES = -(-_WANTED // (_TESTS * _EDITS_OF_A_PACKAGE))
"""In each test."""
_CASES = (8, 24) if _WANTED > 2_000 else (6, 14)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    with quick_folder() as scratch, Oracle(scratch, remembers=True) as oracle:
        yield oracle


@pytest.mark.parametrize("part", range(_TESTS))
async def test_no_case_is_missed(
    part: int, tmp_path: Path, oracle: Oracle, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = _FIRST_SEED + part * _PACKAGES
    seeds = range(first, first + _PACKAGES)

    report = await prove(Affected(), oracle, tmp_path, seeds, edits=_EDITS_OF_A_PACKAGE, cases=_CASES)

    print(f"\nseeds {seeds.start} to {seeds.stop - 1}: {report}")
    assert not report.misses, "\n".join(map(str, report.misses))
    assert not report.wrongly_neutral
    assert not report.in_vain, "\n".join(report.in_vain)
    whole = _whole(tmp_path_factory, part, report)
    if whole is not None:
        print(f"in all: {whole}")
        assert whole.total.edits >= _WANTED
        assert whole.total.rerun_share <= 0.3


def _whole(factory: pytest.TempPathFactory, part: int, report: Report) -> Report | None:
    """What all parts found, where this is the last of them; they may run in several processes."""
    session = factory.getbasetemp()
    folder = (session.parent if "PYTEST_XDIST_WORKER" in os.environ else session) / "proof"
    folder.mkdir(exist_ok=True)
    file = folder / f"{part}.part"
    file.with_suffix(".new").write_bytes(pickle.dumps(report))
    file.with_suffix(".new").rename(file)
    parts = [pickle.loads(path.read_bytes()) for path in folder.glob("*.part")]
    if len(parts) < _TESTS:
        return None
    whole = Report()
    for found in parts:
        whole.add(found)
    return whole
