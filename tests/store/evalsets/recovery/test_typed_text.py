"""Typed text: the next session takes over the text that a crashed session had not applied."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.store.evalsets.recovery import TypedTexts

CRASH = """
import os, sys
from pathlib import Path
from workbench.store.evalsets.recovery import TypedTexts
TypedTexts(Path(sys.argv[1])).write(sys.argv[2:])
os._exit(9)
"""


def crash(root: Path, *texts: str) -> None:
    """Simulate a session that crashes with these typed texts."""
    assert subprocess.run([sys.executable, "-c", CRASH, str(root), *texts], check=False).returncode == 9


def list_files(root: Path) -> list[Path]:
    return sorted((root / ".workbench" / "recovery").glob("*"))


def test_texts_of_crashed_sessions_are_adopted_once(tmp_path: Path) -> None:
    crash(tmp_path, "one", "two")
    crash(tmp_path, "three")

    assert TypedTexts(tmp_path).adopt_abandoned() == ["one", "two", "three"]
    assert TypedTexts(tmp_path).adopt_abandoned() == []
    (own_file,) = list_files(tmp_path)
    assert json.loads(own_file.read_text())["texts"] == ["one", "two", "three"]


def test_texts_of_a_running_session_are_not_adopted(tmp_path: Path) -> None:
    TypedTexts(tmp_path).write(["mine"])

    assert TypedTexts(tmp_path).adopt_abandoned() == []
    assert len(list_files(tmp_path)) == 1


def test_an_empty_list_of_texts_leaves_no_file(tmp_path: Path) -> None:
    texts = TypedTexts(tmp_path)
    texts.write([])
    texts.write(["something"])
    texts.write([])

    assert list_files(tmp_path) == []


@pytest.mark.parametrize("content", [b"\x00\xff", b'{"version": 99, "texts": ["later"]}', b"[]", b'{"version": 1}'])
def test_unreadable_files_are_kept(tmp_path: Path, content: bytes) -> None:
    crash(tmp_path, "one")
    unreadable = tmp_path / ".workbench" / "recovery" / "odd.typed"
    unreadable.write_bytes(content)

    assert TypedTexts(tmp_path).adopt_abandoned() == ["one"]
    assert unreadable.read_bytes() == content
