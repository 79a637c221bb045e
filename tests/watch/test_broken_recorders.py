"""The proof notices every way of being broken that there is in `broken`, after few edits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.watch.broken import VARIANTS, Variant
from tests.watch.generated.harness import prove
from tests.watch.generated.oracle import Oracle, quick_folder
from tests.watch.generated.packages import ENVIRONMENT
from tests.watch.strategy import Affected

pytestmark = pytest.mark.needs_fork

_PACKAGES = 8
_EDITS_OF_A_PACKAGE = 40


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with quick_folder() as scratch, Oracle(scratch, remembers=True) as oracle:
        yield oracle


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
async def test_what_is_broken_is_noticed(
    variant: Variant, tmp_path: Path, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    variant.break_it(monkeypatch)

    report = await prove(
        Affected(), oracle, tmp_path, range(_PACKAGES), edits=_EDITS_OF_A_PACKAGE,
        tools=(5, 7), cases=(6, 8), recipes=variant.recipes, likely=variant.likely,
    )  # fmt: skip

    print(f"\n{variant}: noticed after {report.total.edits} edits")
    assert report.misses
    assert not report.misses[0].was_run
