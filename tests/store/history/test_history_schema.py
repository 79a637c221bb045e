"""The file of the history: shared, full, locked, damaged, or from another version."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.store.full_disk import no_space_left
from tests.store.history.conftest import make_record, make_result
from workbench.store.errors import DamagedFile, StoreError
from workbench.store.history import history_schema
from workbench.store.history.history import History
from workbench.store.history.history_queries import ResultToStore

WRITER = textwrap.dedent(
    """
    import sys
    from datetime import UTC, datetime
    from pathlib import Path
    from workbench.model.run_events import RunSummary
    from workbench.model.identity import CaseKey
    from workbench.model.results import CaseResult, CaseStatus
    from workbench.store.history.history import History
    from workbench.store.history.history_queries import RunRecord

    root, name = Path(sys.argv[1]), sys.argv[2]
    with History.open(root) as history:
        history.begin_run(RunRecord(run_id=name, started_at=datetime.now(UTC), root=root))
        for number in range(100):
            key = CaseKey(target="t", eval_set="s", eval_id=str(number))
            history.finish_job(name, CaseResult(case=key, eval_set_id="s", status=CaseStatus.PASSED))
        history.end_run(name, RunSummary(passed=100), duration_seconds=1, interrupted=False)
    """
)


def get_history_file(root: Path) -> Path:
    return root / ".workbench" / "history.db"


def test_several_processes_can_create_and_write_a_history_simultaneously(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), f"run-{n}"]) for n in range(4)]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]

    with History.open(tmp_path) as history:
        assert {run.run_id: len(history.jobs(run.run_id)) for run in history.runs()} == {
            f"run-{n}": 100 for n in range(4)
        }


def test_stored_results_survive_a_killed_process(tmp_path: Path) -> None:
    script = WRITER[: WRITER.index("    history.end_run")] + "    import os; os._exit(9)\n"

    assert subprocess.run([sys.executable, "-c", script, str(tmp_path), "r"], check=False).returncode == 9

    with History.open(tmp_path) as history:
        assert len(history.jobs("r")) == 100


def test_a_reader_sees_results_of_a_running_run(tmp_path: Path, history: History) -> None:
    history.begin_run(make_record("r"))
    history.finish_job("r", make_result("a"))

    with History.open(tmp_path) as reader:
        results = reader.results("r")
        next(results)
        history.finish_job("r", make_result("b"))
        assert list(results) == []
        assert len(reader.jobs("r")) == 2


def test_a_full_disk_is_an_error_that_loses_no_stored_result(history: History) -> None:
    history.begin_run(make_record("r"))
    history.finish_job("r", make_result("a"))
    pages = history._database.execute("PRAGMA page_count").fetchone()[0]
    history._database.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreError, match=r"history\.db: cannot be used: the disk is full"):
        history.finish_job("r", make_result("b", answer=os.urandom(100_000).hex()))

    assert list(history.results("r")) == [make_result("a")]
    history._database.execute("PRAGMA max_page_count = 1000000")
    history.finish_job("r", make_result("b"))
    assert len(history.jobs("r")) == 2


def test_an_error_that_rolls_back_a_migration_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = ("CREATE TABLE t (a UNIQUE)", "INSERT INTO t VALUES (1)", "INSERT OR ROLLBACK INTO t VALUES (1)")
    monkeypatch.setattr(history_schema, "MIGRATIONS", [failing])

    with pytest.raises(StoreError, match="UNIQUE constraint failed"):
        History.open(tmp_path)


def test_a_read_only_file_is_an_error(history: History) -> None:
    history._database.execute("PRAGMA query_only = 1")

    with pytest.raises(StoreError, match=r"history\.db: cannot be used: it is read-only"):
        history.begin_run(make_record("r"))


def test_a_path_that_is_too_long_for_sqlite_is_named_as_such(tmp_path: Path) -> None:
    root = tmp_path.joinpath(*["long" * 50] * 3)
    root.mkdir(parents=True)

    with pytest.raises(StoreError, match=r"history\.db: cannot be used: its path has \d+ bytes, and SQLite opens 504"):
        History.open(root)


@pytest.mark.parametrize("was_killed", [False, True], ids=["closed", "with the log of a killed process"])
def test_a_history_is_read_on_a_full_disk(tmp_path: Path, was_killed: bool) -> None:
    before, root = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    with History.open(before) as history:
        history.begin_run(make_record("r"))
        history.finish_job("r", make_result("a"))
        if was_killed:
            shutil.copytree(before, root, ignore=shutil.ignore_patterns("*-shm"))
    if not was_killed:
        shutil.copytree(before, root)

    with no_space_left(), History.open(root) as history, History.open(root) as other:
        assert list(history.results("r")) == list(other.results("r")) == [make_result("a")]
        with pytest.raises(StoreError, match=r"history\.db: cannot be used: "):
            history.begin_run(make_record("s"))

    with History.open(root) as history:
        assert list(history.results("r")) == [make_result("a")]


@pytest.mark.needs_permissions
def test_a_history_is_read_in_a_read_only_folder(tmp_path: Path, history: History) -> None:
    history.begin_run(make_record("r"))
    history.close()
    folder = get_history_file(tmp_path).parent
    for path in (*folder.iterdir(), folder):
        path.chmod(path.stat().st_mode & 0o500)

    with History.open(tmp_path) as reader:
        assert [run.run_id for run in reader.runs()] == ["r"]
        with pytest.raises(StoreError) as refused:
            reader.begin_run(make_record("s"))
    assert history_schema.is_denied(refused.value)


@pytest.mark.needs_permissions
def test_a_folder_without_permission_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="permission denied"):
            History.open(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_a_new_file_shares_no_log_with_a_deleted_open_file(tmp_path: Path) -> None:
    with History.open(tmp_path) as deleted_history:
        deleted_history.begin_run(make_record("r"))
        deleted_history.finish_jobs("r", [ResultToStore(make_result(str(number))) for number in range(200)])
        get_history_file(tmp_path).unlink()
        with History.open(tmp_path) as history:
            assert history.runs() == []
            history.begin_run(make_record("r"))
            history.copy_jobs(deleted_history, "r")

    with History.open(tmp_path) as history:
        assert len(history.jobs("r")) == 200


def test_a_file_or_folder_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".workbench").write_text("")
    with pytest.raises(StoreError, match=r"\.workbench: cannot create it"):
        History.open(tmp_path)

    (tmp_path / "b" / ".workbench" / "history.db").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"history\.db: it is a folder"):
        History.open(tmp_path / "b")


def test_a_file_that_stays_locked_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_schema, "_BUSY_SECONDS", 0.05)
    with History.open(tmp_path) as history:
        other = sqlite3.connect(get_history_file(tmp_path), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process has locked it"):
            history.begin_run(make_record("r"))
        other.execute("ROLLBACK")
        other.close()

        history.begin_run(make_record("r"))


@pytest.mark.parametrize(
    "damage", [b"this is no database" * 99, b"SQLite format 3\x00" + b"\xff" * 5000], ids=["text", "header"]
)
def test_a_damaged_file_is_moved_aside_and_never_deleted(tmp_path: Path, damage: bytes) -> None:
    for _ in range(2):
        (tmp_path / ".workbench").mkdir(exist_ok=True)
        get_history_file(tmp_path).write_bytes(damage)
        with History.open(tmp_path) as history:
            assert "was damaged: it was moved to history.db.corrupt-" in (history.pop_notice() or "")
            history.begin_run(make_record("r"))

    with History.open(tmp_path) as history:
        assert history.pop_notice() is None
    moved_files = sorted(path.name for path in (tmp_path / ".workbench").glob("*corrupt*"))
    assert moved_files == ["history.db.corrupt-1", "history.db.corrupt-2"]
    assert (tmp_path / ".workbench" / moved_files[0]).read_bytes() == damage


def write_damaged(root: Path) -> bytes:
    """Write a history that opens but has unreadable results; return its content."""
    with History.open(root) as history:
        history.begin_run(make_record("r"))
        for number in range(50):
            history.finish_job("r", make_result(str(number), answer=os.urandom(2000).hex()))
    data = bytearray(get_history_file(root).read_bytes())
    data[20_000:] = b"\xff" * (len(data) - 20_000)
    get_history_file(root).write_bytes(data)
    return bytes(data)


def test_a_file_found_damaged_during_a_read_is_moved_aside(tmp_path: Path) -> None:
    data = write_damaged(tmp_path)

    with History.open(tmp_path) as history:
        with pytest.raises(StoreError, match=r"the file was damaged and has been moved to history\.db\.corrupt-1"):
            list(history.results("r"))
        with pytest.raises(StoreError, match=r"cannot be used"):
            history.runs()

    assert get_history_file(tmp_path).with_name("history.db.corrupt-1").read_bytes()[: len(data)] == data
    with History.open(tmp_path) as history:
        assert history.runs() == []
        assert "it was moved to history.db.corrupt-1" in (history.pop_notice() or "")
        assert history.pop_notice() is None


def test_a_database_of_the_first_version_keeps_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setattr(history_schema, "MIGRATIONS", history_schema.MIGRATIONS[:1])
        History.open(tmp_path).close()
    with sqlite3.connect(get_history_file(tmp_path)) as connection:
        connection.execute("INSERT INTO run (run_id, record) VALUES ('r', ?)", (make_record("r").model_dump_json(),))
    connection.close()

    with History.open(tmp_path) as history:
        assert [run.run_id for run in history.runs()] == ["r"]
        history.store_unjudged("r", [ResultToStore(make_result("a"), execution_key="k")])
        assert list(history.list_unjudged_jobs("r").values()) == ["k"]


def make_format_4(history: History) -> None:
    """Remove the additions of later versions from the tables."""
    for statement in (
        "DROP VIEW job_detail",
        "DROP VIEW job_state",
        "DROP VIEW unjudged_detail",
        "ALTER TABLE unjudged DROP COLUMN agent_seconds",
        "ALTER TABLE job DROP COLUMN agent_seconds",
        "ALTER TABLE job DROP COLUMN misses_samples",
        "ALTER TABLE job DROP COLUMN is_replayed",
        "ALTER TABLE job DROP COLUMN quarantine",
        "DROP INDEX job_of_execution",
        "ALTER TABLE job DROP COLUMN is_forgotten",
        "DROP TABLE renamed_case",
        "PRAGMA user_version = 4",
    ):
        history._database.execute(statement)


def test_results_of_older_programs_show_the_time_of_the_whole_case(tmp_path: Path) -> None:
    with History.open(tmp_path) as history:
        history.begin_run(make_record("r"))
        history.finish_job("r", make_result("a"))
        history.store_unjudged("r", [ResultToStore(make_result("b"), execution_key="k")])
        make_format_4(history)

    with History.open(tmp_path) as history:
        (job,) = history.jobs("r")
        assert (job.duration_seconds, job.agent_seconds) == (0.01, 0.01)
        (result,) = history.results("r")
        assert result.agent_seconds == 0.01
        (waiting,) = history.list_unjudged_jobs("r")
        (unjudged,) = history.find_unjudged_results([("r", waiting)])
        assert unjudged is not None and unjudged.agent_seconds == 0.01


def test_references_to_rows_deleted_by_older_programs_are_removed(tmp_path: Path) -> None:
    with History.open(tmp_path) as history:
        history.begin_run(make_record("r"))
        for name in "abc":
            history.finish_job("r", make_result(name), execution_key=name)
        history._database.execute("DELETE FROM score WHERE id = 1")
        history._database.execute("DELETE FROM execution WHERE id = 1")
        history._database.execute("DELETE FROM blob WHERE id = 2")
        make_format_4(history)

    with History.open(tmp_path) as history:
        assert history._database.execute("PRAGMA foreign_key_check").fetchall() == []
        assert len(history.jobs("r")) == 3
        assert [verdict.job.key.case.eval_id for verdict in history.last_verdicts()] == ["c"]


def test_a_file_that_another_process_has_moved_aside_is_not_moved_again(tmp_path: Path) -> None:
    write_damaged(tmp_path)

    with History.open(tmp_path) as first, History.open(tmp_path) as second:
        with pytest.raises(DamagedFile):
            list(first.results("r"))
        with History.open(tmp_path) as new:
            new.begin_run(make_record("new"))
            with pytest.raises(DamagedFile):
                list(second.results("r"))
            assert not new.is_gone

    with History.open(tmp_path) as history:
        assert [run.run_id for run in history.runs()] == ["new"]


def test_a_database_of_a_newer_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    History.open(tmp_path).close()
    with sqlite3.connect(get_history_file(tmp_path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = get_history_file(tmp_path).read_bytes()

    with pytest.raises(
        StoreError,
        match=r"written by a newer version of workbench \(format 99; this one reads up to "
        rf"{len(history_schema.MIGRATIONS)}\)",
    ):
        History.open(tmp_path)

    assert get_history_file(tmp_path).read_bytes() == before


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"{",
        b'{"row": {"prompt": 1}}',
        b'{"row": {"response": ["a"]}}',
        b'{"row": {"calls": 1}}',
        b'{"row": {"calls": ["f"]}}',
        b'{"row": {"calls": [[1, {}]]}}',
        b'{"row": {"calls": [["f", [1]]]}}',
        b'{"row": {"calls": [["f"]]}}',
        b'{"row": {"seconds": "1"}}',
        b'{"row": {}, "expected": {"response": 1}}',
    ],
)
def test_an_undecodable_result_is_an_error_with_the_case(history: History, data: bytes) -> None:
    history.begin_run(make_record("r"))
    history.finish_job("r", make_result("a"))
    history._database.execute("UPDATE blob SET data = ?", (data,))

    with pytest.raises(StoreError, match=r"the result of sets/a\.evalset\.json:a cannot be read"):
        list(history.results("r"))


def test_the_database_has_the_expected_tables(history: History) -> None:
    rows = history._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")

    result_tables = {"run", "job", "execution", "score", "unjudged", "blob"}
    assert {row[0] for row in rows} == result_tables | {"dependency_set", "dependency", "renamed_case"}
