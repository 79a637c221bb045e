"""The project that the paths on a command line belong to."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.engine.plan import PlanError
from workbench.engine.project_selection import find_common_root
from workbench.store.history.history import History


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with two packages. It is the working directory."""
    (tmp_path / ".git").mkdir()
    for name in ("one", "two"):
        (tmp_path / name / "tests").mkdir(parents=True)
        (tmp_path / name / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def store_results(root: Path) -> None:
    with History.open(root):
        pass


def test_packages_are_projects_of_their_own_until_the_project_around_them_has_results(repository: Path) -> None:
    one, two = (Path(name, "tests") for name in ("one", "two"))
    assert find_common_root([one]) == repository / "one"
    with pytest.raises(PlanError, match=r"different projects .* into a folder above them"):
        find_common_root([one, two])

    store_results(repository)

    assert find_common_root([one, two]) == find_common_root([one]) == find_common_root([]) == repository


def test_a_package_with_results_settings_or_a_repository_stays_a_project(repository: Path) -> None:
    store_results(repository)
    store_results(repository / "one")
    assert find_common_root([Path("one/tests")]) == repository / "one"

    for mark in ("workbench.toml", ".git"):
        (repository / "two" / mark).touch()
        assert find_common_root([Path("two/tests")]) == repository / "two"
        (repository / "two" / mark).unlink()
    assert find_common_root([Path("two/tests")]) == repository


def test_a_package_is_the_project_of_its_own_folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_results(repository)
    monkeypatch.chdir(repository / "one")

    assert find_common_root([Path("tests")]) == find_common_root([]) == repository / "one"
    assert find_common_root([repository / "two"]) == repository / "two"
