"""Shared fixtures for tests of documents: copies of the project's own eval-set files for editing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

COMMENTED = dedent(
    """\
    {
      "eval_set_id": "s",
      "eval_cases": [ // all of them
        // about a
        {"eval_id": "a", "conversation": []}, // trailing a
        // about b
        {"eval_id": "b", "conversation": [ /* none */ ]}, # trailing b
        {"eval_id": "c", "conversation": []} // trailing c
        // the end
      ], // after
      "name": "n"
    }
    """
)


EVALSETS = Path(__file__).parent.parent / "fixtures" / "evalsets"


@pytest.fixture
def copy_eval_set(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies one of our eval-set files into a folder of the test."""

    def copy(name: str) -> Path:
        return Path(shutil.copy(EVALSETS / name, tmp_path / name))

    return copy


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file of the test."""

    def write(content: str | bytes, name: str = "set.evalset.json") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
