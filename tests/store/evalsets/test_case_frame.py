"""Frames of large files, kept from one start to the next."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.store.evalsets import case_frame, evalset_document
from workbench.store.evalsets.case_frame import FrameCache
from workbench.store.evalsets.evalset_document import DocumentView

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def write_set(*eval_ids: str, indent: int | None = None, mark: str = "", **extra: object) -> bytes:
    case = {"conversation": [{"user_content": {"parts": [{"text": "x"}]}}], **extra}
    cases = [{"eval_id": eval_id, **case} for eval_id in eval_ids]
    text = json.dumps({"eval_set_id": "s", "eval_cases": cases, "note": 1.5}, indent=indent, ensure_ascii=False)
    return (mark + text).encode()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept frames. Frames of small files are kept too."""
    monkeypatch.setattr(case_frame, "_LARGE", 1)
    monkeypatch.setattr(evalset_document, "FrameCache", lambda: FrameCache(tmp_path / "frames"))
    return tmp_path / "frames"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], tuple[DocumentView, bool]]:
    """Read a file; the second value says whether its frame was read from the text."""

    def read(data: bytes) -> tuple[DocumentView, bool]:
        calls: list[str] = []

        def read_frame(text: str, **options: object) -> object:
            calls.append(text)
            return case_frame.read_frame(text, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(evalset_document, "read_frame", read_frame)
        return DocumentView(Path("s.evalset.json"), data), bool(calls)

    return read


Read = Callable[[bytes], tuple[DocumentView, bool]]


@given(ids=st.lists(IDS, max_size=5), indent=st.sampled_from([None, 2]), mark=st.sampled_from(["", "\ufeff"]))
def test_a_kept_frame_is_that_of_the_text(ids: list[str], indent: int | None, mark: str) -> None:
    data = write_set(*ids, indent=indent, mark=mark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case_frame, "_LARGE", 1 << 30)
        plain = DocumentView(Path("s.evalset.json"), data)

    for _ in range(2):
        view = DocumentView(Path("s.evalset.json"), data)

        assert view.content() == data
        assert view._pieces == plain._pieces
        assert (view.entries, view.header, list(view.problems)) == (plain.entries, plain.header, list(plain.problems))


def test_a_file_without_faults_is_read_once(read: Read, folder: Path) -> None:
    data = write_set("a", "b")

    assert [read(data)[1] for _ in range(3)] == [True, False, False]
    assert read(write_set("a", "c"))[1]
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    "data",
    [
        write_set("a", conversation="wrong"),
        write_set("a").replace(b"}]", b"},]"),
        write_set("a", "b").replace(b'"eval_id": "b"', b'"eval_id" "b"'),
        b'[{"query": "x"}]',
    ],
)
def test_files_with_faults_and_old_formats_are_read_each_time(data: bytes, read: Read, folder: Path) -> None:
    assert [read(data)[1] for _ in range(2)] == [True, True]
    assert not folder.exists()


@pytest.mark.parametrize("damage", [lambda data: data[:-8], lambda data: data[:40] + b"7" + data[41:], lambda _: b""])
def test_a_damaged_frame_is_read_again(damage: Callable[[bytes], bytes], read: Read, folder: Path) -> None:
    data = write_set("a", "b")
    read(data)
    (kept,) = folder.iterdir()
    kept.write_bytes(damage(kept.read_bytes()))

    view, was_read = read(data)

    assert was_read
    assert [entry.eval_id for entry in view.entries] == ["a", "b"]
    assert not read(data)[1]


def test_another_version_reads_the_text(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_set("a")
    read(data)
    monkeypatch.setattr(case_frame, "describe_program", lambda *_: "another version")

    assert read(data)[1]


def test_old_frames_are_deleted(read: Read, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_frame, "_MOST_KEPT", 3)
    for number in range(5):
        read(write_set(f"case {number}"))

    assert len(list(folder.iterdir())) == 3
    assert not read(write_set("case 4"))[1]


def test_a_folder_that_cannot_be_written_is_no_fault(read: Read, folder: Path) -> None:
    folder.write_text("in the way")

    view, _ = read(write_set("a"))

    assert [entry.eval_id for entry in view.entries] == ["a"]


@pytest.mark.parametrize("has_repeated_key", [False, True])
def test_a_file_in_which_adk_finds_nothing_is_checked_once(
    has_repeated_key: bool, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = b'"eval_id": "b", '
    data = write_set("a", "b").replace(key, key * 2 if has_repeated_key else key)
    checked: list[int] = []
    check = DocumentView._check_case
    monkeypatch.setattr(DocumentView, "_check_case", lambda view, index: checked.append(index) or check(view, index))
    first, _ = read(data)
    found = list(first.adk_problems)
    assert checked == [0, 1]

    second, _ = read(data)

    assert second.check_cases(1) is not has_repeated_key
    assert list(second.adk_problems) == found
    assert any(problem.case is not None for problem in found) is has_repeated_key
    assert checked == ([0, 1, 0, 1] if has_repeated_key else [0, 1])
