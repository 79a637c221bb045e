"""Files: roots, changes on disk, and writes that replace nothing by mistake."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from workbench.store import files as store_files
from workbench.store.errors import StoreError
from workbench.store.files import (
    find_root,
    has_changed,
    is_pipe,
    read_bytes,
    write_atomic,
    write_directly,
    write_in_pieces,
    write_new,
)


def test_touching_a_file_is_not_a_change(tmp_path: Path) -> None:
    path = tmp_path / "a"
    stamp = write_atomic(path, b"1")
    os.utime(path, ns=(1, 1))

    assert not has_changed(path, stamp)
    write_atomic(path, b"2", expect=stamp)
    assert has_changed(path, stamp)
    assert read_bytes(path)[0] == b"2"


def test_a_new_file_never_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_new(path, b"1")

    with pytest.raises(StoreError, match="it already exists"):
        write_new(path, b"2")

    assert path.read_bytes() == b"1"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_and_circular_links_are_refused_with_a_clear_message(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)

    with pytest.raises(StoreError, match="it is a folder"):
        write_atomic(tmp_path, b"")
    with pytest.raises(StoreError, match="circle"):
        write_atomic(circle, b"")
    with pytest.raises(StoreError, match="there is no such file"):
        write_atomic(tmp_path / "none" / "a", b"")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process began")
def test_a_process_with_a_reused_id_is_not_the_earlier_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as another:
        mark = {"process": another.pid, "session": "x", "started": store_files._get_start_time(another.pid)}
        assert store_files.is_running(mark)
        assert store_files.is_running({**mark, "started": None})
        assert not store_files.is_running({**mark, "started": "1"})
        another.communicate(b"\n")
    assert not store_files.is_running(mark)


def test_the_root_is_the_nearest_workbench_toml_else_git_or_pyproject_else_the_path(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    assert find_root(deep) in (deep.resolve(), find_root(tmp_path))

    (tmp_path / "a" / "b" / "pyproject.toml").touch()
    assert find_root(deep) == (tmp_path / "a" / "b").resolve()
    (tmp_path / "a" / "workbench.toml").touch()
    assert find_root(deep) == (tmp_path / "a").resolve()
    (deep / "x.evalset.json").touch()
    assert find_root(deep / "x.evalset.json") == (tmp_path / "a").resolve()


def test_a_linked_file_belongs_to_the_project_of_the_link_else_to_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "workbench.toml").touch()
    (tmp_path / "theirs" / "x.evalset.json").touch()
    link = tmp_path / "mine" / "link.evalset.json"
    link.symlink_to(tmp_path / "theirs" / "x.evalset.json")
    assert find_root(link) == (tmp_path / "theirs").resolve()

    (tmp_path / "mine" / "workbench.toml").touch()
    assert find_root(link) == (tmp_path / "mine").resolve()


def test_a_path_that_does_not_exist_has_no_root(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nothing-here: there is no such file or folder"):
        find_root(tmp_path / "nothing-here")


needs_named_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")


@needs_named_pipes
def test_a_pipe_is_written_once_a_program_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_files, "_WAIT_FOR_WRITER", 0.0)
    pipe, read, announced = tmp_path / "pipe", list[bytes](), list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)

    def announce(text: str) -> None:
        announced.append(text)
        reader.start()

    write_directly(pipe, [b"x" * 100_000, b"y"], announce=announce)

    reader.join(10)
    assert read == [b"x" * 100_000 + b"y"]
    assert announced == [f"{pipe} is a pipe that no program reads; waiting 60 s for one"]


@needs_named_pipes
def test_a_reader_of_a_pipe_may_end_before_it_has_read_everything(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    reader = subprocess.Popen(["head", "-c", "1", str(pipe)], stdout=subprocess.PIPE)

    write_directly(pipe, [b"x" * 1_000_000, b"y" * 100_000], announce=print)

    assert reader.communicate()[0] == b"x"


@needs_named_pipes
def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(StoreError, match="found a pipe, expected a file"):
        write_atomic(pipe, b"x")
    with pytest.raises(StoreError, match="found a pipe, expected a file"):
        write_in_pieces(pipe, [b"x"])

    assert is_pipe(pipe)
