"""`.env` files, read as python-dotenv reads them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from workbench.agents.worker import dotenv

CASES = {
    "plain": ("A=1\nB = two words \n", {"A": "1", "B": "two words"}),
    "export": ("export A=1\n  export  B=2", {"A": "1", "B": "2"}),
    "comments": ("# no\nA=1 # yes\nB=a#b\nC=#c\n D=1", {"A": "1", "B": "a#b", "C": "#c", "D": "1"}),
    "single quotes": (r"A='it\'s \n # all' # no", {"A": r"it's \n # all"}),
    "double quotes": (r'A="tab\tline\n\"q\" # all"', {"A": 'tab\tline\n"q" # all'}),
    "several lines": ("A=\"one\ntwo\"\nB='three\nfour'\nC=5", {"A": "one\ntwo", "B": "three\nfour", "C": "5"}),
    "variables": (
        "A=1\nB=${A}2\nC=${OUTSIDE}\nD=${NONE}x\nE=${NONE:-y}",
        {"A": "1", "B": "12", "C": "out", "D": "x", "E": "y"},
    ),
    "the environment wins": ("OUTSIDE=file\nA=${OUTSIDE}", {"OUTSIDE": "file", "A": "out"}),
    "line endings": ("A=1\r\nB=2\rC=3", {"A": "1", "B": "2", "C": "3"}),
    "empty": ("A=\nB=''\nC=\"\"", {"A": "", "B": "", "C": ""}),
    "no assignment": ("A\nnot a line\nB=1", {"B": "1"}),
    "equals signs": ("A=b=c==", {"A": "b=c=="}),
    "the last counts": ("A=1\nA=2", {"A": "2"}),
    "dollar signs": ("A=$5\nB=$A", {"A": "$5", "B": "$A"}),
    "unclosed quotes": ("A=\"x\nB='y\nC=1", {"C": "1"}),
    "text after quotes": ("A='x'y\nB='x' # yes\nC=1", {"B": "x", "C": "1"}),
    "unicode": ("A=\u00e9\u4e2d", {"A": "\u00e9\u4e2d"}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_follow_the_rules_of_the_format(name: str) -> None:
    text, expected = CASES[name]

    assert dotenv.parse(text, {"OUTSIDE": "out"}) == expected


@pytest.mark.parametrize("name", [name for name in CASES if name != "no assignment"])
def test_values_equal_those_of_python_dotenv(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    python_dotenv = pytest.importorskip("dotenv", reason="python-dotenv comes with the extra adk")
    monkeypatch.setenv("OUTSIDE", "out")
    text, _ = CASES[name]

    reference_values = python_dotenv.main.DotEnv(None, stream=io.StringIO(text), override=False).dict()

    assert dotenv.parse(text, {"OUTSIDE": "out"}) == reference_values


def test_existing_variables_stay_and_the_first_of_two_files_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("\ufeffWB_A=a\nWB_SET=a", encoding="utf-8")
    (tmp_path / "b").write_text("WB_A=b\nWB_B=b")
    monkeypatch.setenv("WB_SET", "set")
    environ = {"WB_SET": "set"}
    monkeypatch.setattr(os, "environ", environ)

    dotenv.load([str(tmp_path / "a"), str(tmp_path / "missing"), str(tmp_path / "b")])

    assert environ == {"WB_A": "a", "WB_B": "b", "WB_SET": "set"}


def test_effective_values_are_computed_without_loading_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("WB_A=a\nWB_SET=a\nWB_NUL=a\0b")
    (tmp_path / "b").write_text("WB_A=b\nWB_B=${WB_A}${WB_SET}")
    files = [str(tmp_path / name) for name in ("missing", "a", "b")]
    monkeypatch.setenv("WB_SET", "set")
    for name in ("WB_A", "WB_B", "WB_NUL"):
        monkeypatch.delenv(name, raising=False)

    before = dict(os.environ)

    found = dotenv.effective(files, before)

    assert found == {**before, "WB_A": "a", "WB_SET": "set", "WB_B": "aset"}
    assert dict(os.environ) == before
    dotenv.load(files)
    assert dict(os.environ) == found
