"""`workbench watch` as a process, with `run --affected` and `explain`."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.engine.judged import AGENT, make_judged_folder, serve_judge
from tests.watch.watched import Folder
from workbench.cli import watch_commands
from workbench.cli.run_commands import make_plan, open_workspace, select_cases
from workbench.cli.watch_commands import WatchJsonPrinter, WatchTextPrinter
from workbench.engine.plan import RunOptions
from workbench.model import text
from workbench.model.identity import CaseKey, Dependency, DependencyKind, JobKey
from workbench.store.errors import StoreError
from workbench.store.history.history import History
from workbench.store.history.history_queries import StoredVerdict
from workbench.store.model_answers import ReplyStore
from workbench.watch.selector import Action, decide_plan, read_results
from workbench.watch.watch_events import ChangeSeen, VerdictsReused

WORKBENCH = str(Path(sys.executable).with_name("workbench"))
TOOLS = """
def up(text):
    return text

def down(text):
    return text
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("tools.py", TOOLS)
    project.write("agent.py", "import tools\n\ndef answer(prompt):\n    return getattr(tools, prompt)(prompt)\n")
    project.cases(first="up", second="down")
    return project


class Watch:
    """A watch as a process, and its output lines."""

    def __init__(self, folder: Folder, *options: str) -> None:
        self.process = subprocess.Popen(
            [WORKBENCH, "watch", *options], cwd=folder.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def until(self, wanted: str) -> list[str]:
        """Return the lines up to one with this text."""
        lines = [self._lines.get(timeout=30)]
        while wanted not in lines[-1]:
            lines.append(self._lines.get(timeout=30))
        return lines

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=30)


@pytest.fixture
def watches() -> Iterator[list[Watch]]:
    started_watches: list[Watch] = []
    yield started_watches
    for watch in started_watches:
        watch.process.kill()
        watch.process.communicate()


def _wait_until_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def run(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Return a function that runs commands in the folder, in this process."""
    return CommandLine(folder.root, monkeypatch)


@pytest.mark.parametrize("report_format", ["text", "jsonl"])
def test_a_watch_whose_reader_is_gone_ends_and_stops_its_agents(folder: Folder, report_format: str) -> None:
    folder.write(
        "agent.py",
        "import os, pathlib, time\n\n"
        "def answer(prompt):\n"
        "    pathlib.Path(f'{prompt}.pid').write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n",
    )
    command = [WORKBENCH, "watch", "--format", report_format]
    process = subprocess.Popen(command, cwd=folder.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    _wait_until_true(lambda: any(path.read_text() for path in folder.root.glob("*.pid")))
    agents = [int(text) for path in folder.root.glob("*.pid") if (text := path.read_text())]

    process.stdout.read(1)
    process.stdout.close()

    assert process.wait(timeout=10) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert not [agent for agent in agents if Path(f"/proc/{agent}").exists()]


def test_the_text_output_has_lines_for_people(folder: Folder, watches: list[Watch]) -> None:
    watch = Watch(folder, "--plain")
    watches.append(watch)
    start = "".join(watch.until("2 cases: 2 passed"))
    assert "watching 5 files in 1 folder; Ctrl-C ends" in start
    assert "✓ PASSED  set.evalset.json:first" in start

    folder.write("tools.py", TOOLS.replace("return text", 'return "no"', 1))

    change = "".join(watch.until("2 cases: "))
    assert "tools.py saved - 1 of 2 run: tools.py: up() changed" in change
    assert "✗ FAILED  set.evalset.json:first" in change
    assert "after the save)" in change
    assert "exact_match: 0.00 < 1.00" in change
    assert "second" not in change

    folder.write("set.evalset.workbench.json", '{"quarantine": {"first": {"until": "2999-01-01", "reason": "slow"}}}')

    begun = "".join(watch.until("2 cases: "))
    assert "set.evalset.workbench.json saved - changes the quarantine of 1 case\n" in begun
    assert "    set.evalset.json:first: quarantined until 2999-01-01: slow\n" in begun
    assert "⊘ QUARANTINED  set.evalset.json:first  (stored)" in begun
    assert "second" not in begun
    assert watch.stop() == 130


def test_the_jsonl_output_has_one_object_per_line(folder: Folder, watches: list[Watch]) -> None:
    watch = Watch(folder, "--format", "jsonl")
    watches.append(watch)
    watch.until("all_known")

    folder.write("tools.py", TOOLS + "\ndef half(:\n")

    lines = [json.loads(line) for line in watch.until("all_known")]
    kinds = [line["kind"] for line in lines]
    assert kinds == ["change_seen", "source_broken", "all_known"]
    assert (lines[0]["paths"], lines[0]["waiting"]) == (["tools.py"], 2)
    assert (lines[1]["path"], lines[1]["line"]) == ("tools.py", 8)
    assert lines[2]["stale"] == 2
    assert watch.stop(signal.SIGTERM) == 130


@pytest.fixture
def judged_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """Create two cases; each takes two judge calls of ten and two tokens."""
    with serve_judge(monkeypatch):
        yield make_judged_folder(tmp_path, good="good", poor="poor")


def test_the_cost_of_judges_is_below_the_summary(judged_project: Folder, watches: list[Watch]) -> None:
    watch = Watch(judged_project, "--plain")
    watches.append(watch)

    (costs,) = watch.until("model gemini-2.5-flash: ")[-1:]
    assert re.search(r"^ +model gemini-2.5-flash: 4 calls, \d+ tokens, \$0\.0", costs)

    judged_project.write("agent.py", AGENT.replace("upper()", "lower()"))
    (later_costs,) = watch.until("model gemini-2.5-flash: ")[-1:]
    assert "4 calls" in later_costs  # calls of this change only, not of earlier changes
    assert watch.stop() == 130


def test_the_cost_of_judges_is_in_the_jsonl_output(judged_project: Folder, watches: list[Watch]) -> None:
    watch = Watch(judged_project, "--format", "jsonl")
    watches.append(watch)

    message = json.loads(watch.until("all_known")[-1])

    (model,) = message["summary"]["models"]
    assert model.items() >= {"model": "gemini-2.5-flash", "calls": 4, "cached": 0, "failed": 0}.items()
    assert 0 < model["cost"] < 0.01


def test_stored_verdicts_are_marked_as_stored(folder: Folder, run: CommandLine, watches: list[Watch]) -> None:
    assert run("run").status == 0

    watch = Watch(folder, "--format", "jsonl")
    watches.append(watch)

    verdicts = [json.loads(line) for line in watch.until("all_known") if '"verdict"' in line]
    assert [verdict["source"] for verdict in verdicts] == ["stored", "stored"]


class StoredVerdicts:
    """The current verdicts of a project, printed as at the start of a watch."""

    def __init__(self, root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._capfd = capfd
        self.read: list[str] = []
        """The cases whose results the last `show` read from the history."""
        monkeypatch.setattr(watch_commands, "_WORTH_CACHING", 2)
        monkeypatch.setattr(watch_commands, "read_results", self._read_results)

    def _read_results(self, history: History, verdicts: Mapping[JobKey, StoredVerdict]) -> Any:
        self.read += [job.case.eval_id for job in verdicts]
        return read_results(history, verdicts)

    def show(self) -> dict[str, Any]:
        """Return the printed lines as data, by the id of the case."""
        self.read.clear()
        self._capfd.readouterr()
        workspace, named = open_workspace((str(self.root),), target=None)
        with workspace:
            plan = make_plan(workspace, select_cases(workspace, named, cases=()), RunOptions())
            decisions = decide_plan(workspace, plan)
            verdicts = {each.job: each.verdict for each in decisions if each.verdict is not None}
            assert [each.action for each in decisions] == [Action.NOTHING] * len(verdicts)
            event = VerdictsReused(verdicts, {each.job: each.planned for each in decisions})
            WatchJsonPrinter(self.root, open_history=workspace.history).show(event)
        lines = [json.loads(line) for line in self._capfd.readouterr().out.splitlines()]
        return {line["eval_id"]: line for line in lines}


@pytest.fixture
def stored(
    folder: Folder, run: CommandLine, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> StoredVerdicts:
    """Run the two cases of the folder, and return their verdicts."""
    assert run("run").status == 0
    return StoredVerdicts(folder.root, capfd, monkeypatch)


def list_stored_lines(folder: Folder) -> list[str]:
    with ReplyStore(folder.root, file_name="lines.db") as store:
        return store.list_keys()


def test_lines_of_stored_verdicts_are_made_once(stored: StoredVerdicts) -> None:
    lines = stored.show()
    assert stored.read == list(lines) == ["first", "second"]

    assert stored.show() == lines
    assert stored.read == []


def test_only_lines_of_new_verdicts_are_made_again(folder: Folder, run: CommandLine, stored: StoredVerdicts) -> None:
    lines = stored.show()
    folder.write("tools.py", TOOLS.replace("return text", "return 'new'", 1))
    assert run("run", "--affected").status == 1

    new_lines = stored.show()

    assert stored.read == ["first"]
    assert (new_lines["first"]["status"], new_lines["second"]) == ("FAILED", lines["second"])
    assert new_lines["first"]["differences"][0]["actual"] == "new"


def test_another_version_makes_all_lines_again(stored: StoredVerdicts, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.show()
    monkeypatch.setattr(watch_commands, "describe_program", lambda *_: "another version")

    stored.show()

    assert stored.read == ["first", "second"]


def test_a_stored_line_never_shows_a_secret_that_is_known_now(
    folder: Folder, run: CommandLine, stored: StoredVerdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("tools.py", TOOLS.replace("return text", "return 'say hunter2-hunter2'", 1))
    assert run("run", "--affected").status == 1
    lines = stored.show()
    monkeypatch.setattr(text, "_known_secrets", [])
    text.add_secrets(["hunter2-hunter2"])

    masked = [stored.show(), stored.show()]

    assert [each["first"]["turns"][0]["response"] for each in masked] == ["say [redacted]"] * 2
    assert stored.read == ["first"]  # its line has a mask, so it is not stored
    text._known_secrets.clear()
    assert stored.show() == lines


def test_damaged_lines_are_made_again(folder: Folder, stored: StoredVerdicts) -> None:
    lines = stored.show()
    with contextlib.closing(sqlite3.connect(folder.root / ".workbench" / "lines.db")) as database:
        database.execute("UPDATE reply SET data = x'78'")
        database.commit()

    assert stored.show() == lines
    assert stored.show() == lines and not stored.read


def test_lines_are_printed_although_they_cannot_be_stored(folder: Folder, stored: StoredVerdicts) -> None:
    (folder.root / ".workbench" / "lines.db").mkdir()

    assert list(stored.show()) == list(stored.show()) == ["first", "second"]


def test_a_locked_file_of_lines_is_tried_once(stored: StoredVerdicts, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def get(store: ReplyStore, key: str) -> str:
        tried.append(key)
        raise StoreError(Path("lines.db"), "another process has locked it")

    monkeypatch.setattr(ReplyStore, "get", get)
    monkeypatch.setattr(watch_commands, "_split_jobs", lambda jobs: [[job] for job in jobs])

    assert list(stored.show()) == ["first", "second"]
    assert len(tried) == 1


def test_lines_that_were_not_used_are_deleted(folder: Folder, run: CommandLine, stored: StoredVerdicts) -> None:
    stored.show()
    (before,) = list_stored_lines(folder)
    folder.cases(first="up", third="down")
    assert run("run").status == 0

    stored.show()

    (after,) = list_stored_lines(folder)
    assert before != after


def test_a_missing_job_changes_only_one_part_of_the_lines() -> None:
    jobs = [JobKey(case=CaseKey(target="t", eval_set="s", eval_id=f"case {number}")) for number in range(2000)]
    parts = list(watch_commands._split_jobs(jobs))
    fewer = list(watch_commands._split_jobs(jobs[:1000] + jobs[1001:]))

    assert 10 < len(parts) < 40 and [job for part in parts for job in part] == jobs
    assert sum(part not in parts for part in fewer) == 1


def test_a_wrong_argument_is_reported_before_the_watch_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CommandLine(tmp_path, monkeypatch)("watch", "nowhere")

    assert result.status == 2
    assert "nowhere" in result.error


@pytest.mark.parametrize("redirection", ["> {file}", "| tee {file}", "--format jsonl > {file}"])
def test_the_output_file_of_the_watch_is_not_a_change_of_the_project(folder: Folder, redirection: str) -> None:
    folder.write("agent.py", "import os\n\ndef answer(prompt):\n    os.system('true')\n    return prompt\n")
    file = folder.root / "lines.txt"
    command = f"{WORKBENCH} watch {redirection.format(file=file)}"
    process = subprocess.Popen(command, shell=True, cwd=folder.root, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        _wait_until_true(
            lambda: file.exists() and any(end in file.read_text() for end in ("2 cases: 2 passed", "all_known"))
        )
        before = file.read_text()
        time.sleep(1.0)
        after = file.read_text()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()

    assert after == before
    lines = after.splitlines()[0 if "jsonl" in redirection else 1 :]
    assert len(lines) == 4  # the start of the watch, two verdicts, the summary
    assert after.startswith(("{", "sample · set.evalset.json · criteria test_config.json\n"))


def test_a_log_file_in_the_project_is_ignored(folder: Folder, watches: list[Watch]) -> None:
    watch = Watch(folder, "--plain")
    watches.append(watch)
    watch.until("2 cases: 2 passed")

    for number in range(3):
        folder.write("app.log", str(number))
        time.sleep(0.2)
    folder.write("unused.py", "x = 1")

    (line,) = watch.until("saved")
    assert "unused.py saved - affects none of 2 cases" in line


def _note_change(*paths: str, second: int, run: int = 0) -> ChangeSeen:
    at = datetime(2026, 1, 1, 12, 0, tzinfo=UTC) + timedelta(seconds=second)
    return ChangeSeen(at=at, paths=paths, run=run, judged=0, waiting=0, total=5, reason="it changed" if run else "")


def test_equal_changes_without_effect_are_one_line_a_minute(capfd: pytest.CaptureFixture[str]) -> None:
    printer = WatchTextPrinter(plain=True, verbose=False, reported=())
    for second in range(70):
        printer.show(_note_change("noise.py", second=second))
    printer.show(_note_change("agent.py", second=70, run=2))
    printer.show(_note_change("noise.py", second=71))

    noise, effect = "noise.py saved - affects none of 5 cases", "agent.py saved - 2 of 5 run: it changed"
    lines = capfd.readouterr().out.splitlines()
    assert [line.partition("  ")[2] for line in lines] == [
        *(noise, f"{noise} (60 times)", f"{noise} (9 times)", effect, noise)
    ]
    assert [line[3:8] for line in lines] == ["00:00", "01:00", "01:09", "01:10", "01:11"]


def test_a_file_that_was_deleted_is_not_called_saved(capfd: pytest.CaptureFixture[str]) -> None:
    printer = WatchTextPrinter(plain=True, verbose=False, reported=())
    change = _note_change("a.py", "b.py", second=0, run=2)
    for removed in ({"a.py"}, {"a.py", "b.py"}):
        printer.show(change.model_copy(update={"removed": frozenset(removed)}))

    lines = capfd.readouterr().out.splitlines()
    assert [line.partition("  ")[2].partition(" - ")[0] for line in lines] == ["a.py, b.py saved", "a.py, b.py deleted"]


def test_equal_changes_without_effect_are_one_event_a_minute(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printer = WatchJsonPrinter(tmp_path, open_history=lambda: pytest.fail("no verdict is printed"))
    for second in range(120):
        printer.show(_note_change("noise.py", second=second))

    assert [json.loads(line)["times"] for line in capfd.readouterr().out.splitlines()] == [1, 60]


@pytest.mark.parametrize("is_full", [True, False], ids=["full disk", "deleted history"])
def test_stored_verdicts_that_cannot_be_read_are_reported(
    is_full: bool, stored: StoredVerdicts, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(root: Path) -> History:
        raise StoreError(root / ".workbench" / "history.db", "cannot be used: the disk is full")

    workspace, named = open_workspace((str(stored.root),), target=None)
    with workspace:
        plan = make_plan(workspace, select_cases(workspace, named, cases=()), RunOptions())
        decisions = decide_plan(workspace, plan)
        if is_full:
            monkeypatch.setattr(History, "open", fail)
        else:
            shutil.rmtree(stored.root / ".workbench")
        verdicts = {each.job: each.verdict for each in decisions if each.verdict is not None}
        event = VerdictsReused(verdicts, {each.job: each.planned for each in decisions})
        WatchJsonPrinter(stored.root, open_history=workspace.history).show(event)

    (notice,) = map(json.loads, capfd.readouterr().out.splitlines())
    assert (notice["kind"], notice["severity"]) == ("notice", "error")
    assert notice["message"].startswith("2 stored verdicts cannot be shown: ")
    assert notice["message"].endswith("the disk is full" if is_full else "the history no longer has these results")


def test_a_project_without_cases_is_watched_with_a_message(tmp_path: Path, watches: list[Watch]) -> None:
    folder = Folder(tmp_path)
    watch = Watch(folder, "--plain")
    watches.append(watch)
    watch.until("0 cases")

    folder.write("agent.py", "def answer(prompt):\n    return prompt\n")
    folder.cases(first="hello")

    assert "✓ PASSED  set.evalset.json:first" in "".join(watch.until("1 case: 1 passed"))
    assert watch.stop() == 130
    assert watch.process.stderr is not None
    (warning,) = [line for line in watch.process.stderr if "the first case that is saved will run" in line]
    assert "no eval set was found" in warning


def test_a_folder_without_a_project_is_not_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CommandLine(tmp_path, monkeypatch)("watch")

    assert (result.status, result.out) == (2, "")
    assert "no eval set was found" in result.error


def test_a_warning_about_the_project_is_printed_once(folder: Folder, watches: list[Watch]) -> None:
    settings = folder.root / "workbench.toml"
    settings.write_text(settings.read_text() + "colour = 1\n")

    watch = Watch(folder, "--plain")
    watches.append(watch)
    watch.until("2 cases: 2 passed")
    watch.process.terminate()

    assert watch.process.communicate(timeout=30)[1].count("targets.sample.colour: unknown key") == 1


def test_a_warning_is_printed_once_if_cases_are_selected(folder: Folder, watches: list[Watch]) -> None:
    folder.write("other/agent.py", "root_agent = (")

    watch = Watch(folder, "--plain", "set.evalset.json")
    watches.append(watch)
    watch.until("2 cases: 2 passed")
    watch.process.terminate()

    assert watch.process.communicate(timeout=30)[1].count("other/agent.py") == 1


def test_a_selected_set_without_cases_is_an_error(folder: Folder, run: CommandLine) -> None:
    folder.cases(name="empty")

    result = run("watch", "empty.evalset.json")

    assert (result.status, result.out) == (2, "")
    assert "no eval case in empty.evalset.json" in result.error


def test_unreadable_criteria_end_the_watch_immediately(folder: Folder, run: CommandLine) -> None:
    folder.write("test_config.json", "{")

    result = run("watch")

    assert result.status == 2
    assert "test_config.json" in result.error
    assert "Traceback" not in result.error


def test_only_affected_cases_run(folder: Folder, run: CommandLine) -> None:
    assert run("run", "--affected").status == 0
    folder.write("tools.py", TOOLS.replace("return text", "return str(text)", 1))

    result = run("run", "--affected", "--format", "json")

    report: dict[str, Any] = json.loads(result.out)
    assert report["summary"]["passed"] == 2
    assert "affected: 1 of 2; the other verdicts are current" in result.error
    stored_report = json.loads(run("report", "--format", "json").out)
    assert [case["eval_id"] for case in stored_report["cases"]] == ["first", "second"]
    assert stored_report["summary"]["passed"] == 2
    for _ in range(6):  # reused verdicts do not displace stored results
        second_result = run("run", "--affected")
    folder.write("tools.py", TOOLS)
    assert "affected: 0 of 2" in run("run", "--affected").error
    assert "affected: 0 of 2" in second_result.error
    assert second_result.status == 0


def test_explain_says_why_a_case_would_run(folder: Folder, run: CommandLine) -> None:
    assert "would run\n  because never ran" in run("explain", "--case", "first").out
    run("run")
    folder.write("tools.py", TOOLS.replace("return text", "return str(text)", 1))

    result = run("explain", "--verbose")

    assert result.status == 0
    assert "set.evalset.json:first: would run\n  because tools.py: up() changed" in result.out
    assert "set.evalset.json:second: would not run: its verdict is current" in result.out
    assert re.search(r"^    function +tools.py::down$", result.out, re.MULTILINE)
    depends = re.search(r"it depends on: (.*)", result.out)
    assert depends is not None
    assert "3 functions" in depends[1] or "2 functions" in depends[1]
    assert "_" not in depends[1]


def test_explain_names_a_variable_once(folder: Folder, run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write(
        "agent.py",
        'import os\n\nMODE = os.environ.get("WB_MODE", "")\n\n'
        'def answer(prompt):\n    return str(dict(os.environ)) + os.environ.get("WB_MODE", "")\n',
    )
    run("run", "--case", "first")
    monkeypatch.setenv("WB_MODE", "fast")

    lines = run("explain", "--verbose", "--case", "first").out.splitlines()

    assert "  because $WB_MODE changed" in lines
    assert "  because $WB_MODE is new, and the case reads all variables" in lines
    assert len([line for line in lines if line.split() == ["environment", "variable", "WB_MODE"]]) == 1
    own = Dependency(DependencyKind.VARIABLES, "all\0WB_OWN\0WB_TWO", "-")
    assert watch_commands._list_keys(own, "/project/") == ["all except WB_OWN, WB_TWO"]
    libraries = Dependency(DependencyKind.LIBRARIES, "/project/.venv/site-packages::a,b/c", "as installed")
    assert watch_commands._list_keys(libraries, "/project/") == [".venv/site-packages/a", ".venv/site-packages/b/c"]


def test_explain_puts_an_id_with_a_line_feed_on_one_line(folder: Folder, run: CommandLine) -> None:
    folder.cases(**{"a\nb": "hello"})

    assert "set.evalset.json:a b: would run" in run("explain").out


def test_explain_finds_the_verdict_of_a_renamed_case(folder: Folder, run: CommandLine) -> None:
    run("run")
    folder.cases(renamed="up", second="down")

    result = run("explain", "--case", "renamed")

    assert "set.evalset.json:renamed: would not run: its verdict is current\n  last verdict: PASSED" in result.out


def test_explain_names_a_verdict_of_the_same_input_with_other_expectations(folder: Folder, run: CommandLine) -> None:
    run("run")
    other = json.loads((folder.root / "set.evalset.json").read_text())
    other["eval_cases"][0]["conversation"][0]["final_response"]["parts"][0]["text"] = "other"
    folder.write("other.evalset.json", json.dumps(other))

    result = run("explain", "other.evalset.json", "--case", "first")

    assert "would only be judged again\n  because a case with the same input already ran" in result.out


def test_only_changed_rows_of_a_selected_dataset_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watches: list[Watch]
) -> None:
    folder = Folder(tmp_path)
    run = CommandLine(tmp_path, monkeypatch)
    rows = "\n".join(json.dumps({"eval_id": name, "response": name, "reference": "a"}) for name in ("a", "b"))
    folder.write("rows.jsonl", rows)
    assert "would be judged\n  because never judged" in run("explain", "rows.jsonl", "--case", "a").out

    assert run("run", "rows.jsonl", "--affected").status == 1
    assert "affected: 0 of 2" in run("run", "rows.jsonl", "--affected").error
    folder.write("rows.jsonl", rows.replace('"response": "b"', '"response": "c"'))

    assert "affected: 1 of 2, 1 only judged" in run("run", "rows.jsonl", "--affected").error
    explanation = run("explain", "rows.jsonl:a").out
    assert "would not run: its verdict is current" in explanation
    assert "it depends on: nothing except the recording and its criteria" in explanation

    watch = Watch(folder, "rows.jsonl", "--plain")
    watches.append(watch)
    assert "(stored)" in "".join(watch.until("2 cases: 1 passed, 1 failed"))
    folder.write("rows.jsonl", rows.replace('"response": "b"', '"response": "d"'))
    assert "1 of 2 only judged: the case changed" in "".join(watch.until("2 cases: 1 passed, 1 failed"))


def test_selected_files_outside_the_project_are_watched_and_can_be_replaced(
    tmp_path: Path, watches: list[Watch]
) -> None:
    folder = Folder(tmp_path / "project")
    folder.write("rows.jsonl", json.dumps({"eval_id": "a", "response": "a", "reference": "b"}))
    folder.write("../criteria.json", '{"criteria": {"exact_match": 1.0}}')
    watch = Watch(folder, "rows.jsonl", "--config", "../criteria.json", "--plain")
    watches.append(watch)
    watch.until("1 case: 1 failed")

    folder.write("../criteria.json", '{"criteria": {"exact_match": 0.0}}')
    watch.until("1 case: 1 passed")

    (folder.root / "rows.jsonl").unlink()
    watch.until("0 cases")
    folder.write("rows.jsonl", json.dumps({"eval_id": "a", "response": "a", "reference": "b"}))
    assert "(stored)" in "".join(watch.until("1 case: 1 passed"))
    watch.stop()
    assert watch.process.stderr is not None
    assert "rows.jsonl: the file was deleted" in watch.process.stderr.read()
