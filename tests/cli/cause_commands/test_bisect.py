"""`workbench bisect`: real repositories, real agents. After each test the repository of the user must be as before."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.llm.servers import openai, run_server
from workbench.engine.git_worktrees import Worktree
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.report.report_formats import SCHEMA_VERSION

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine, CommandResult

SET = "home/light.evalset.json"
CASE = f"{SET}:on"
AGENT = """
NUMBER = {number}


def answer(prompt):
    calls = [{{"tool_name": "set_light", "tool_input": {{"room": room()}}}}]
    return {{"response": f"done {{NUMBER}}", "predicted_trajectory": calls}}


def room():
{body}
"""
GOOD, BAD = '    return "kitchen"', '    return "hall"'
FLAKY = '    import random\n    return "hall" if random.random() < 0.6 else "kitchen"'


class History:
    """A project in a git repository, with an agent that changes in each commit."""

    def __init__(self, workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]) -> None:
        self.workbench = workbench
        self.root = workbench.root
        self._make_turn = make_turn
        self._number = 0
        self.expect("kitchen")
        workbench.write(".gitignore", ".workbench/\n__pycache__/\n.env\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Ann")
        self.git("config", "user.email", "ann@example.org")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def expect(self, room: str) -> None:
        """Write the eval set: one case that expects the light of a room."""
        self.workbench.add_set(SET, {"on": [self._make_turn("light it", room=room)]})

    def commit(self, body: str, subject: str = "", **files: str) -> str:
        """Commit another version of the agent; return the id of the commit."""
        self._number += 1
        self.workbench.write("home/agent.py", AGENT.format(number=self._number, body=body))
        self.workbench.write("README.md", f"version {self._number}\n")
        for name, content in files.items():
            self.workbench.write(f"home/{name}.py", content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", subject or f"Change {self._number}")
        return self.git("rev-parse", "HEAD")

    def commit_many(self, bodies: Sequence[str]) -> list[str]:
        """Commit further versions of the agent as `commit` does, by one process of git; return their ids."""
        first = self.commit(bodies[0])
        stream = ""
        for body in bodies[1:]:
            self._number += 1
            stream += f"commit refs/heads/main\ncommitter Ann <ann@example.org> {int(time.time())} +0000\n"
            stream += _quote(f"Change {self._number}\n")
            stream += "" if "\nfrom " in stream else f"from {first}\n"
            stream += f"M 644 inline home/agent.py\n{_quote(AGENT.format(number=self._number, body=body))}"
            stream += f"M 644 inline README.md\n{_quote(f'version {self._number}' + chr(10))}\n"
        done = ["git", "fast-import", "--quiet"]
        subprocess.run(done, cwd=self.root, input=stream, text=True, capture_output=True, check=True)
        self.git("reset", "--quiet", "--hard")
        return self.git("rev-list", "--reverse", f"--max-count={len(bodies)}", "HEAD").split()

    def run_at(self, commits: Sequence[str]) -> None:
        """Run the case at these commits, in the folder of the user, as the user would have done then."""
        with Workspace.open(self.root) as workspace:
            for commit in commits:
                self.git("checkout", "--quiet", commit)
                run = workspace.start(workspace.plan([Selection(eval_set=SET)], RunOptions()))
                list(run.iter_events())
        self.git("checkout", "--quiet", "main")

    def read_state(self) -> dict[str, str]:
        """Return what a search must not change."""
        commands = {
            "status": ("status", "--porcelain"), "worktrees": ("worktree", "list"), "refs": ("for-each-ref",),
            "head": ("rev-parse", "--symbolic-full-name", "HEAD"), "config": ("config", "--list", "--local"),
            "reflog": ("reflog",),
        }  # fmt: skip
        index = (self.root / ".git/index").read_bytes().hex()
        return {"index": index} | {name: self.git(*command) for name, command in commands.items()}


def _quote(text: str) -> str:
    """Return text as data of `git fast-import`."""
    return f"data {len(text.encode())}\n{text}\n"


@pytest.fixture
def history(workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]) -> History:
    return History(workbench, make_turn)


Bisect = Callable[..., "CommandResult"]


@pytest.fixture
def bisect(history: History) -> Bisect:
    """Run `workbench bisect`, and check that it changes nothing of the user."""

    def run(*arguments: str) -> CommandResult:
        before = history.read_state()
        done = history.workbench("bisect", *arguments)
        assert history.read_state() == before
        assert not list(Path(os.environ["XDG_CACHE_HOME"]).glob("workbench/bisect/*/worktree"))
        return done

    return run


def make_commits(history: History, count: int, *, first_bad: int) -> list[str]:
    """Commit versions of the agent. The case fails from number `first_bad` on, counted from 0."""
    return history.commit_many([GOOD if number < first_bad else BAD for number in range(count)])


def test_it_names_the_commit_with_its_diff_and_what_the_case_did(history: History, bisect: Bisect) -> None:
    commits = make_commits(history, 5, first_bad=3)

    done = bisect(CASE, "--good", commits[0])

    assert done.status == 0
    assert f"{CASE} turned red in {commits[3][:10]}" in done.out
    assert '-    return "kitchen"\n+    return "hall"' in done.out
    assert "also changed, not used by the case: README.md" in done.out
    assert '    -   room: "kitchen"\n    +   room: "hall"' in done.out
    assert "the case, its criteria and the settings are those of the working tree" in done.error


def test_every_key_of_its_json_is_documented(history: History, bisect: Bisect) -> None:
    commits = make_commits(history, 3, first_bad=1)
    text = (Path(__file__).parents[3] / "docs/formats.md").read_text("utf-8")
    section = text.partition("## The JSON of `bisect`")[2].partition("\n## ")[0]

    record = bisect(CASE, "--format", "json", "--good", commits[0]).data

    steps = {key for step in record["steps"] for key in step}
    assert not [key for key in (*record, *record["case"], *record["good"], *steps) if f"`{key}`" not in section]
    assert record["schema_version"] == SCHEMA_VERSION


def test_without_known_verdicts_few_commits_are_checked_out(
    history: History, bisect: Bisect, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = make_commits(history, 100, first_bad=50)
    checked_out: list[str] = []
    check_out = Worktree.check_out

    def count(self: Worktree, commit: str) -> None:
        if self.commit != commit:
            checked_out.append(commit)
        check_out(self, commit)

    monkeypatch.setattr(Worktree, "check_out", count)

    done = bisect(CASE, "--format", "json")

    assert done.data["first_bad"]["id"] == commits[50]
    assert len(checked_out) <= 8 + done.data["executions"]


def test_without_good_it_searches_back_in_growing_steps(history: History, bisect: Bisect) -> None:
    commits = make_commits(history, 14, first_bad=4)

    done = bisect(CASE, "--format", "json")

    assert done.data["first_bad"]["id"] == commits[4]
    assert done.data["executions"] <= 9


@pytest.mark.parametrize("seed", [1, 2])
def test_with_half_of_64_verdicts_known_at_most_4_executions(history: History, bisect: Bisect, seed: int) -> None:
    chance = random.Random(seed)
    first_bad = chance.randrange(1, 64)
    commits = make_commits(history, 64, first_bad=first_bad)
    history.run_at(chance.sample(commits, 32))

    done = bisect(CASE, "--format", "json", "--good", commits[0])

    assert done.data["first_bad"]["id"] == commits[first_bad]
    assert done.data["executions"] <= 4
    again = bisect(CASE, "--format", "json", "--good", commits[0])
    assert (again.data["first_bad"], again.data["executions"]) == (done.data["first_bad"], 0)


def test_if_all_verdicts_are_known_nothing_runs(history: History, bisect: Bisect) -> None:
    commits = make_commits(history, 20, first_bad=9)
    history.run_at(commits)

    done = bisect(CASE, "--format", "json")

    assert (done.data["first_bad"]["id"], done.data["executions"]) == (commits[9], 0)
    assert {step["source"] for step in done.data["steps"]} == {"known"}


def test_commits_that_change_nothing_the_case_uses_share_a_verdict(history: History, bisect: Bisect) -> None:
    first = history.commit(GOOD)
    for number in range(8):
        history.workbench.write("README.md", f"note {number}")
        history.git("commit", "--quiet", "--all", "-m", f"Note {number}")
    bad = history.commit(BAD)

    done = bisect(CASE, "--format", "json", "--good", first)

    assert (done.data["first_bad"]["id"], done.data["executions"]) == (bad, 2)


def test_stored_executions_are_scored_again_by_new_expectations(history: History, bisect: Bisect) -> None:
    commits = [history.commit(GOOD), history.commit(BAD)]
    history.run_at(commits)
    history.expect("hall")

    done = bisect(CASE, "--format", "json", "--good", commits[1], "--bad", commits[0])
    assert "are they swapped" in done.error.lower()

    history.commit(GOOD)
    done = bisect(CASE, "--format", "json", "--good", commits[1])
    assert done.data["first_bad"]["subject"] == "Change 3"
    assert [step["source"] for step in done.data["steps"]] == ["executed", "scored"]


def test_a_commit_whose_agent_cannot_start_is_skipped_and_never_red(history: History, bisect: Bisect) -> None:
    commits = [history.commit(GOOD), history.commit('    raise ValueError("broken")'), history.commit(BAD)]

    done = bisect(CASE, "--format", "json", "--good", commits[0])

    assert done.status == 1
    assert [each["id"] for each in done.data["suspects"]] == commits[1:]
    assert done.data["first_bad"] is None
    assert [step["reason"] for step in done.data["steps"] if step["outcome"] == "skipped"] == [
        "ValueError: broken (home/agent.py:11)"
    ]
    text = bisect(SET, "--case", "on", "--good", commits[0]).out
    assert "turned red in one of 2 commits" in text
    assert "skipped: ValueError: broken" in text


def test_a_commit_without_the_agent_is_skipped(history: History, bisect: Bisect) -> None:
    first = history.commit(GOOD)
    history.git("rm", "-r", "--quiet", "home/agent.py")
    history.git("commit", "--quiet", "-m", "Remove it")
    bad = history.commit(BAD)

    done = bisect(CASE, "--format", "json", "--good", first)

    assert [each["id"] for each in done.data["suspects"]][-1] == bad
    assert [step["outcome"] for step in done.data["steps"]] == ["failed", "passed", "skipped"]


@pytest.mark.parametrize(("repeats", "good", "unusable"), [("1", 2, 2), ("2", 1, 5)])
def test_a_good_commit_is_found_between_those_without_the_agent_and_those_that_cannot_start(
    history: History, bisect: Bisect, repeats: str, good: int, unusable: int
) -> None:
    history.git("commit", "--quiet", "--allow-empty", "-m", "Begin")
    goods = [history.commit(GOOD) for _ in range(good)]
    broken = [history.commit('    raise ValueError("broken")') for _ in range(unusable)]
    bads = [history.commit(BAD) for _ in range(2)]

    done = bisect(CASE, "--format", "json", "--repeats", repeats)

    assert done.data["good"]["id"] in goods
    assert {each["id"] for each in done.data["suspects"]} <= {*goods, *broken, bads[0]}


def test_the_case_of_today_is_searched_also_where_it_did_not_exist(history: History, bisect: Bisect) -> None:
    (history.root / SET).unlink()
    commits = [history.commit(GOOD), history.commit(BAD)]
    history.expect("kitchen")
    history.git("add", "--all")
    history.git("commit", "--quiet", "-m", "Add the case")

    assert bisect(CASE, "--format", "json").data["first_bad"]["id"] == commits[1]

    own = bisect(CASE, "--as-committed", "--good", commits[0])
    assert own.status == 2
    assert "no verdict at --good" in own.error


def test_as_committed_finds_a_changed_expectation(history: History, bisect: Bisect) -> None:
    first = history.commit(GOOD)
    history.expect("attic")
    changed = history.commit(GOOD, "Expect another room")

    done = bisect(CASE, "--as-committed", "--good", first)

    assert f"turned red in {changed[:10]}" in done.out
    assert '"room": "attic"' in done.out


@pytest.mark.parametrize("name", ["home/test_config.json", "workbench.toml"])
def test_as_committed_shows_changed_criteria_and_settings(history: History, bisect: Bisect, name: str) -> None:
    criteria = history.root / "home/test_config.json"
    criteria.write_text('{"criteria": {"tool_trajectory_avg_score": 0.0}}')
    first = history.commit(BAD)
    criteria.write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    (history.root / "workbench.toml").open("a").write("# strict\n")
    history.commit(BAD, "Be strict")

    done = bisect(CASE, "--as-committed", "--good", first)

    assert f"diff --git a/{name} b/{name}" in done.out
    assert "also changed, not used by the case: README.md\n" in done.out


def test_a_file_in_a_listed_folder_is_part_of_the_diff(history: History, bisect: Bisect) -> None:
    body = '    import pathlib\n    return "hall" if list(pathlib.Path(__file__).parent.glob("*/*.md")) else "kitchen"'
    history.workbench.write("home/notes/plain.txt", "")
    first = history.commit(body)
    history.workbench.write("home/notes/new.md", "")
    history.git("add", "--all")
    history.git("commit", "--quiet", "-m", "Add a note")

    assert "diff --git a/home/notes/new.md b/home/notes/new.md" in bisect(CASE, "--good", first).out


def test_hunks_in_functions_that_the_case_did_not_use_are_left_out(history: History, bisect: Bisect) -> None:
    far = "\n" * 12
    unused = "def other():\n    return {0}\n" + far + "LIMIT = {0}\n" + far
    good = history.commit(GOOD + far + unused.format(1))
    history.commit(BAD + far + unused.format(2))

    done = bisect(CASE, "--good", good)

    assert '-    return "kitchen"' in done.out
    assert '+    return "hall"' in done.out
    assert "return 2" not in done.out
    assert "LIMIT" not in done.out
    assert "left out: 2 hunks in code that the case did not use (home/agent.py); all of it: git show " in done.out


def test_recorded_answers_of_the_project_cost_no_model_call(history: History, bisect: Bisect) -> None:
    body = """
import httpx

def room():
    body = {{"model": "m", "messages": [{{"role": "user", "content": "room"}}]}}
    reply = httpx.post("{url}/v1/chat/completions", json=body)
    return reply.json()["choices"][0]["message"]["content"].{change}()
"""
    with run_server(lambda _: openai("kitchen")) as server:
        commits = [
            history.commit(f"    return ask()\n{body.format(url=server.url, change=change)}".replace("room()", "ask()"))
            for change in ("strip", "strip", "upper", "upper")
        ]
        assert history.workbench("run", CASE, "--models", "auto").status == 1
        (history.root / ".workbench/history.db").unlink()
        asked = len(server.calls)

        done = bisect(CASE, "--good", commits[0], "--models", "auto", "--format", "json")

        assert asked == 1
        assert len(server.calls) == asked

    assert done.data["first_bad"]["id"] == commits[2]
    assert done.data["executions"] == 4
    assert [step["replayed"] for step in done.data["steps"]] == [1] * 4
    refused = bisect(CASE, "--models", "auto", "--repeats", "3")
    assert "a recorded answer is no new sample" in refused.error


def test_a_program_that_cannot_be_followed_is_named(history: History, bisect: Bisect) -> None:
    body = (
        "    import pathlib, subprocess\n    folder = pathlib.Path(__file__).parent\n"
        '    return subprocess.run(["sh", "room.sh"], cwd=folder, capture_output=True, text=True).stdout.strip()'
    )
    history.workbench.write("home/room.sh", "echo kitchen")
    first = history.commit(body)
    history.workbench.write("home/room.sh", "echo hall")
    history.git("commit", "--quiet", "--all", "-m", "Change the room")

    done = bisect(CASE, "--good", first)

    assert "not everything that it used could be followed (subprocess" in done.out
    assert "not known to be used by the case: home/room.sh" in done.out


def test_a_merge_is_searched_on_both_sides_or_as_one_commit(history: History, bisect: Bisect) -> None:
    first = history.commit(GOOD)
    history.git("checkout", "--quiet", "-b", "side")
    guilty = history.commit(BAD)
    history.git("checkout", "--quiet", "main")
    history.workbench.write("other.txt", "main")
    history.git("add", "other.txt")
    history.git("commit", "--quiet", "-m", "Main goes further")
    history.git("merge", "--quiet", "--no-edit", "side")

    assert bisect(CASE, "--format", "json", "--good", first).data["first_bad"]["id"] == guilty
    merge = bisect(CASE, "--format", "json", "--good", first, "--first-parent").data["first_bad"]
    assert merge["id"] == history.git("rev-parse", "HEAD")


def test_a_good_commit_on_another_branch_starts_where_the_branches_part(history: History, bisect: Bisect) -> None:
    first = history.commit(GOOD)
    history.git("checkout", "--quiet", "-b", "side")
    history.commit(GOOD)
    history.git("checkout", "--quiet", "main")
    bad = history.commit(BAD)

    done = bisect(CASE, "--format", "json", "--good", "side")

    assert (done.data["first_bad"]["id"], done.data["good"]["id"]) == (bad, first)
    assert "the search begins where they part" in done.error


def test_the_last_change_to_red_counts_if_it_was_red_before(history: History, bisect: Bisect) -> None:
    commits = [history.commit(body) for body in (GOOD, BAD, GOOD, GOOD, BAD)]
    history.run_at(commits)

    assert bisect(CASE, "--format", "json", "--good", commits[0]).data["first_bad"]["id"] == commits[4]


def merge_old_side(history: History) -> tuple[str, list[str]]:
    """Merge a branch that was red where it forked into a green one; return the green commit and those of the branch."""
    history.commit(BAD)
    history.git("checkout", "--quiet", "-b", "side")
    side = [history.commit(BAD, f"Side {number}") for number in range(8)]
    history.git("checkout", "--quiet", "main")
    good = history.commit(GOOD)
    history.commit(GOOD)
    history.git("merge", "--quiet", "--no-commit", "--strategy=ours", "side")
    return good, side


@pytest.mark.parametrize("arguments", [[], ["--repeats", "4"]])
def test_a_branch_that_was_red_where_it_forked_is_not_blamed(
    history: History, bisect: Bisect, arguments: Sequence[str]
) -> None:
    good, _ = merge_old_side(history)
    history.commit(GOOD, "Merge it")
    guilty = history.commit(BAD)
    for _ in range(3):
        history.commit(BAD)

    done = bisect(CASE, "--format", "json", "--good", good, *arguments)

    assert done.data["first_bad"]["id"] == guilty


def test_a_merge_of_a_branch_that_was_always_red_is_in_doubt(history: History, bisect: Bisect) -> None:
    good, side = merge_old_side(history)
    merge = history.commit(BAD, "Merge it")

    done = bisect(CASE, "--format", "json", "--good", good)

    assert done.status == 1
    assert done.data["first_bad"] is None
    assert [each["id"] for each in done.data["suspects"]] == [merge]
    assert done.data["doubt"] == f"the case fails in its parent {side[-1][:10]}, too"
    text = bisect(CASE, "--good", good).out
    assert f"may have turned red in {merge[:10]}" in text


OTHER_BAD = '    return "attic"'


def test_the_fault_of_today_is_found_after_another_one_was_mended(history: History, bisect: Bisect) -> None:
    bodies = [GOOD, *[BAD] * 6, GOOD, GOOD, *[OTHER_BAD] * 4]
    commits = [history.commit(body) for body in bodies]

    done = bisect(CASE, "--format", "json", "--good", commits[0])

    assert done.data["first_bad"]["id"] == commits[9]
    assert any("too, in another way, and was mended before" in each for each in done.data["notices"])


def test_it_says_if_the_case_fails_in_another_way_since(history: History, bisect: Bisect) -> None:
    commits = [history.commit(body) for body in [GOOD, BAD, BAD, OTHER_BAD]]

    done = bisect(CASE, "--good", commits[0])

    assert f"turned red in {commits[1][:10]}" in done.out
    assert f"since {commits[3][:10]} it fails in another way than in {commits[1][:10]}" in done.out
    assert "Certain" not in done.out


def test_a_flaky_case_is_found_with_a_probability(history: History, bisect: Bisect) -> None:
    commits = [history.commit(FLAKY if number >= 3 else GOOD) for number in range(5)]

    done = bisect(CASE, "--format", "json", "--good", commits[0], "--repeats", "12", "--confidence", "0.9")

    chances = {each["id"]: each["probability"] for each in done.data["suspects"]}
    assert sum(chances.values()) == pytest.approx(done.data["confidence"])
    assert done.data["confidence"] >= 0.9
    assert commits[3] in chances
    text = bisect(CASE, "--good", commits[0], "--repeats", "12", "--confidence", "0.9").out
    assert "probability 9" in text


def test_samples_of_equal_commits_count_once(history: History, bisect: Bisect) -> None:
    first = history.commit(GOOD)
    history.workbench.write("README.md", "note")
    history.git("commit", "--quiet", "--all", "-m", "Note")
    bad = history.commit(BAD)

    done = bisect(CASE, "--format", "json", "--good", first, "--repeats", "2", "--confidence", "0.999")

    assert done.data["executions"] == 4
    assert [each["id"] for each in done.data["suspects"]] == [bad]
    assert done.data["suspects"][0]["probability"] == done.data["confidence"] < 0.999
    assert done.status == 1
    assert "may be flaky all the time" in done.data["doubt"]
    done = bisect(CASE, "--format", "json", "--good", first, "--repeats", "8")
    assert (done.data["first_bad"]["id"], done.data["doubt"]) == (bad, None)


def test_env_files_that_git_does_not_track_are_linked(history: History, bisect: Bisect) -> None:
    history.workbench.write("workbench.toml", (history.root / "workbench.toml").read_text() + 'env_file = ".env"\n')
    history.workbench.write(".env", "ROOM=kitchen\n")
    commits = [history.commit('    import os\n    return os.environ["ROOM"]'), history.commit(BAD)]

    assert bisect(CASE, "--format", "json", "--good", commits[0]).data["first_bad"]["id"] == commits[1]
    assert (history.root / ".env").read_text() == "ROOM=kitchen\n"


def test_changes_that_are_not_committed_stay_and_do_not_count(history: History, bisect: Bisect) -> None:
    commits = make_commits(history, 3, first_bad=2)
    dirty = history.workbench.write("home/agent.py", AGENT.format(number=9, body=GOOD))

    done = bisect(CASE, "--format", "json", "--good", commits[0])

    assert done.data["first_bad"]["id"] == commits[2]
    assert "the working tree has changes that are not committed" in done.error
    assert "NUMBER = 9" in dirty.read_text()


def test_hooks_of_the_user_do_not_run(history: History, bisect: Bisect) -> None:
    commits = make_commits(history, 3, first_bad=2)
    hook = history.workbench.write(".git/hooks/post-checkout", f"#!/bin/sh\ntouch {history.root}/ran\n")
    hook.chmod(0o755)

    assert bisect(CASE, "--good", commits[0]).status == 0
    assert not (history.root / "ran").exists()


def test_code_of_the_working_tree_is_no_code_of_a_commit(
    history: History, bisect: Bisect, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.workbench.write("lib/rooms.py", 'ROOM = "hall"\n')
    body = "    import rooms\n    return rooms.ROOM"
    commits = [history.commit(body), history.commit(body)]
    monkeypatch.setenv("PYTHONPATH", str(history.root / "lib"))  # as an editable installation does

    done = bisect(CASE, "--good", commits[0])

    assert done.status == 2
    assert "lib/rooms.py: the agent imported this file from the working tree" in done.error


@pytest.mark.parametrize("use", ["read_text()", "exists()"])
def test_data_of_the_working_tree_is_no_data_of_a_commit(
    history: History, bisect: Bisect, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    history.workbench.write("data/room.txt", "kitchen")
    body = f"    import os, pathlib\n    found = pathlib.Path(os.environ['ROOM']).{use}\n    return str(found)"
    first = history.commit(body)
    history.workbench.write("data/room.txt", "hall")
    history.commit(body)
    monkeypatch.setenv("ROOM", str(history.root / "data/room.txt"))

    for _ in range(2):  # also with what the first search has stored
        done = bisect(CASE, "--good", first)

        assert done.status == 2
        assert "data/room.txt: the agent read this from the working tree" in done.error


WRONG_REVISIONS = {
    "unknown": (["--good", "nowhere"], "--good nowhere: no such revision"),
    "option": (["--bad=--all"], "--bad --all: no such revision"),
    "same": (["--good", "HEAD"], "the same commit"),
    "swapped": (["--good", "HEAD", "--bad", "HEAD~2"], "Are they swapped?"),
    "red at good": (["--good", "HEAD~1"], "it fails at --good"),
    "green at bad": (["--bad", "HEAD~2"], "so there is nothing to find"),
}


@pytest.mark.parametrize("name", WRONG_REVISIONS)
def test_wrong_revisions_are_refused(history: History, bisect: Bisect, name: str) -> None:
    arguments, message = WRONG_REVISIONS[name]
    make_commits(history, 4, first_bad=2)

    done = bisect(CASE, *arguments)

    assert done.status == 2
    assert message in done.error
    assert "Traceback" not in done.error


def test_a_case_that_never_passed_has_no_such_commit(history: History, bisect: Bisect) -> None:
    make_commits(history, 3, first_bad=0)

    done = bisect(CASE)

    assert done.status == 2
    assert "no commit was found in which it passes, of 3 commits back to the first (3 looked at)" in done.error


def test_a_failure_that_vanishes_is_reported(history: History, bisect: Bisect) -> None:
    commits = [history.commit(GOOD), history.commit(GOOD)]

    done = bisect(CASE, "--good", commits[0], "--repeats", "3")

    assert done.status == 2
    assert "it passes 3 times of 3 at" in done.error


def test_an_error_at_bad_is_no_verdict(history: History, bisect: Bisect) -> None:
    history.commit(GOOD)
    history.commit('    raise ValueError("broken")')

    done = bisect(CASE)

    assert done.status == 2
    assert "ValueError: broken (home/agent.py:11). An ERROR is no verdict" in done.error


def test_a_folder_without_a_repository_is_refused(workbench: CommandLine) -> None:
    done = workbench("bisect", "home/light.evalset.json:off")

    assert done.status == 2
    assert "not in a git repository" in done.error


def test_a_repository_without_commits_is_refused(history: History) -> None:
    done = history.workbench("bisect", CASE)

    assert done.status == 2
    assert "the repository has no commits yet" in done.error


def test_git_is_needed(history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    history.commit(GOOD)
    monkeypatch.setenv("PATH", str(tmp_path))

    done = history.workbench("bisect", CASE)

    assert done.status == 2
    assert "git was not found" in done.error


def test_a_shallow_clone_is_refused(history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_commits(history, 3, first_bad=1)
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{history.root}", tmp_path / "clone"], check=True)
    monkeypatch.setattr(history.workbench, "root", tmp_path / "clone")

    done = history.workbench("bisect", CASE)

    assert done.status == 2
    assert "a shallow clone with 1 commit; get the rest first: `git fetch --unshallow`" in done.error


def test_submodules_are_refused(history: History, bisect: Bisect) -> None:
    head = history.commit(GOOD)
    history.git("update-index", "--add", "--cacheinfo", f"160000,{head},libs/other")
    history.git("commit", "--quiet", "-m", "Add a submodule")

    done = bisect(CASE)

    assert done.status == 2
    assert "the repository has submodules (libs/other)" in done.error


@pytest.mark.parametrize("name", [f"{SET}:onn", SET, "nowhere"])
def test_a_case_must_be_named(history: History, bisect: Bisect, make_turn: Callable[..., Any], name: str) -> None:
    history.workbench.add_set(SET, {"on": [make_turn("light it")], "off": [make_turn("dark")]})
    history.commit(GOOD)

    assert bisect(name).status == 2


SLOW = '    import time, pathlib\n    pathlib.Path("{mark}").touch()\n    time.sleep(60)\n    return "hall"'


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_removes_its_worktree(history: History, tmp_path: Path, number: signal.Signals) -> None:
    history.commit(GOOD)
    history.commit(SLOW.format(mark=tmp_path / "started"))
    before = history.read_state()
    process = history.workbench.start("bisect", CASE)
    wait_for(tmp_path / "started")
    process.send_signal(number)
    if number == signal.SIGHUP:  # a shell and its terminal may each send one
        process.send_signal(number)
    _, error = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in error
    assert history.read_state() == before
    assert not list((tmp_path / "cache").glob("workbench/bisect/*/worktree"))


def test_an_interrupt_that_also_ends_a_git_command_is_no_error(
    history: History, bisect: Bisect, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.commit(GOOD)

    def fail_interrupted(_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        raise PlanError("git clean failed: exit status -2")

    monkeypatch.setattr("workbench.watch.bisection.Bisection.run", fail_interrupted)

    assert bisect(CASE).status == 130


def test_the_worktree_of_a_killed_process_is_removed_by_the_next(history: History, tmp_path: Path) -> None:
    commits = [history.commit(GOOD), history.commit(SLOW.format(mark=tmp_path / "started"))]
    before = history.read_state()
    process = history.workbench.start("bisect", CASE)
    wait_for(tmp_path / "started")

    busy = history.workbench("bisect", CASE)
    assert busy.status == 2
    assert "another bisect of this project runs" in busy.error

    process.kill()
    process.communicate()
    assert history.git("worktree", "list").count("\n") == 1
    done = history.workbench("bisect", CASE, "--bad", commits[0])
    assert "so there is nothing to find" in done.error
    assert history.read_state() == before


def wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, f"{path} does not appear"
        time.sleep(0.05)
