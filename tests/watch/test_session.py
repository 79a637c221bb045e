"""Watch mode from a save to the verdicts, with real files, the real watcher and real processes."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from tests.watch.watched import Folder, watching
from workbench.model.events import Notice
from workbench.store.history import History
from workbench.watch.events import AllKnown, ChangeSeen, RunBegun, SourceBroken, VerdictKnown, WatchStarted

AGENT = """
import tools

def answer(prompt):
    return tools.upper(prompt) if prompt.startswith("up") else tools.lower(prompt)
"""
TOOLS = """
PREFIX = ""

def upper(text):
    return PREFIX + text

def lower(text):
    return PREFIX + text
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agent.py", AGENT)
    made.write("tools.py", TOOLS)
    made.cases(up_1="up one", up_2="up two", down="down")
    return made


async def test_a_save_runs_the_cases_that_ran_the_code_and_no_others(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        start = await watched.until_quiet()
        assert start.verdicts == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}
        assert start.first(WatchStarted).total == 3

        broken = await watched.after(
            lambda: folder.write("tools.py", TOOLS.replace("return PREFIX + text", 'return "no"', 1))
        )

        assert broken.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}
        assert broken.change.paths == ("tools.py",)
        assert broken.change.reason == "tools.py: upper() changed"
        assert (broken.change.run, broken.change.total) == (2, 3)
        assert broken.first(AllKnown).stale == 0
        assert broken.first(AllKnown).summary.passed == 1


async def test_what_is_taken_back_costs_nothing(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        await watched.after(lambda: folder.write("tools.py", TOOLS.replace('PREFIX = ""', 'PREFIX = "x"')))

        undone = await watched.after(lambda: folder.write("tools.py", TOOLS))

        assert undone.verdicts == {}
        assert undone.stored == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}
        assert not undone.has(RunBegun)


async def test_verdicts_that_hold_are_told_without_reading_what_the_agents_did(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(folder.root) as watched:
        first = (await watched.until_quiet()).first(AllKnown).summary
    monkeypatch.setattr(History, "result", lambda *_: pytest.fail("what an agent did was read"))

    async with watching(folder.root) as watched:
        again = await watched.until_quiet()

    assert again.stored == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}
    assert again.first(AllKnown).summary.metrics["exact_match"] == first.metrics["exact_match"]


async def test_comments_and_layout_concern_nobody(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        same = await watched.after(lambda: folder.write("tools.py", f"# a comment\n\n{TOOLS}\n\n# and another"))

        assert same.verdicts == same.stored == {}
        assert same.change.run == 0


async def test_verdicts_of_earlier_sessions_are_shown_as_such(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
    folder.write("tools.py", TOOLS.replace("def lower(text):", "def lower(text):\n    text = text"))

    async with watching(folder.root) as watched:
        start = await watched.until_quiet()

    assert start.stored == {"up_1": "PASSED", "up_2": "PASSED"}
    assert start.verdicts == {"down": "PASSED"}


async def test_expectations_and_criteria_are_judged_again_without_the_agent(folder: Folder) -> None:
    folder.write("agent.py", 'from pathlib import Path\n\ndef answer(prompt):\n    Path(f"ran {prompt}").touch()\n'
                 "    return prompt\n")  # fmt: skip
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        await watched.after(lambda: list(map(Path.unlink, folder.root.glob("ran *"))))

        def expect_something_else() -> None:
            text = (folder.root / "set.evalset.json").read_text()
            head, _, tail = text.rpartition('"text": "down"')
            folder.write("set.evalset.json", f'{head}"text": "else"{tail}')

        judged = await watched.after(expect_something_else)
        assert judged.verdicts == {"down": "FAILED"}
        assert (judged.change.run, judged.change.judged) == (0, 1)

        criteria = await watched.after(lambda: folder.criteria(exact_match=0.0))
        assert criteria.verdicts == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}

    assert not list(folder.root.glob("ran *"))


async def test_an_edited_metric_judges_by_its_new_code_what_the_agent_said(folder: Folder) -> None:
    metric = "def own(instance):\n    return {'score': 1.0}\n"
    folder.write("metrics.py", metric)
    custom = {"own": {"code_config": {"name": "metrics.own"}}}
    folder.write("test_config.json", json.dumps({"criteria": {"own": 1.0}, "custom_metrics": custom}))
    async with watching(folder.root) as watched:
        assert set((await watched.until_quiet()).verdicts.values()) == {"PASSED"}

        for score, status in (("0.5", "FAILED"), ("2.0", "PASSED")):
            judged = await watched.after(lambda score=score: folder.write("metrics.py", metric.replace("1.0", score)))
            assert (judged.change.run, judged.change.judged) == (0, 3)
            assert set(judged.verdicts.values()) == {status}


async def test_an_edited_metric_judges_again_also_what_held_when_the_watch_began(folder: Folder) -> None:
    folder.write("metrics.py", "def own(instance):\n    return {'score': 1.0}\n")
    custom = {"own": {"code_config": {"name": "metrics.own"}}}
    folder.write("test_config.json", json.dumps({"criteria": {"own": 1.0}, "custom_metrics": custom}))
    async with watching(folder.root) as watched:
        await watched.until_quiet()

    async with watching(folder.root, catches_up=False) as watched:
        await watched.until_quiet()
        judged = await watched.after(
            lambda: folder.write("metrics.py", "def own(instance):\n    return {'score': 0.0}\n")
        )
        assert set(judged.verdicts.values()) == {"FAILED"}


async def test_cases_that_come_and_go_and_are_said_otherwise(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        changed = await watched.after(lambda: folder.cases(up_1="up one", down="down under", new="new"))

        assert changed.verdicts == {"down": "PASSED", "new": "PASSED"}
        assert changed.first(AllKnown).summary.total == 3

        renamed = await watched.after(lambda: folder.cases(first="up one", down="down under", new="new"))
        assert renamed.verdicts == {}
        assert renamed.stored == {"first": "PASSED"}


async def test_source_that_cannot_be_compiled_is_said_once_and_nothing_runs(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        broken = await watched.after(lambda: folder.write("tools.py", TOOLS + "\ndef half(:\n"))
        assert broken.verdicts == {}
        said = broken.first(SourceBroken)
        assert (said.path, said.line, said.cases) == ("tools.py", 10, 3)
        assert broken.first(AllKnown).stale == 3

        again = await watched.after(lambda: folder.write("notes.txt", "x"))
        assert not again.has(SourceBroken)

        mended = await watched.after(lambda: folder.write("tools.py", TOOLS))
        assert mended.verdicts == {}
        assert mended.first(AllKnown).stale == 0


async def test_a_case_that_runs_on_old_code_is_stopped_and_the_others_go_on(folder: Folder) -> None:
    slow = """
    import time
    from pathlib import Path

    def wait(name):
        Path(f"begun {name}").touch()
        while not Path(f"go {name}").exists():
            time.sleep(0.01)

    def up(text):
        return text

    def down(text):
        return text

    def answer(prompt):
        if Path("slow").exists():
            wait(prompt.split()[0])
        return up(prompt) if prompt.startswith("up") else down(prompt)
    """
    folder.write("agent.py", slow)
    folder.cases(up="up one", down="down two")
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        (folder.root / "slow").touch()
        folder.write("agent.py", slow.replace("return text", "return text + '!'"))
        await _exists(folder.root / "begun up")
        await _exists(folder.root / "begun down")

        # Both run; the next save concerns only one of them.
        watched.events.clear()
        (folder.root / "begun up").unlink()
        folder.write("agent.py", slow.replace("return text", "return text + '?'", 1).replace(
            "return text\n\n    def answer", "return text + '!'\n\n    def answer"))  # fmt: skip
        await _exists(folder.root / "begun up")
        (folder.root / "go up").touch()
        (folder.root / "go down").touch()
        await watched.until(AllKnown)
        said = {e.result.case.eval_id: e.result for e in watched.events if isinstance(e, VerdictKnown)}

        assert _response(said["up"]) == "up one?"
        assert _response(said["down"]) == "down two!"
        assert len([e for e in watched.events if isinstance(e, VerdictKnown)]) == 2


async def test_an_agent_that_writes_into_its_own_folder_does_not_run_for_ever(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    import json, time
    from pathlib import Path

    def answer(prompt):
        log = Path("log.txt")
        log.write_text((log.read_text() if log.exists() else "") + prompt)
        Path(f"out {time.time_ns()}.txt").write_text(prompt)
        return prompt
    """,
    )
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        await asyncio.sleep(1.0)
        later = [event for event in watched.events if isinstance(event, RunBegun)]

        assert later == []
        assert not any(isinstance(event, Notice) for event in watched.events)

        edited = await watched.after(lambda: folder.write("log.txt", "by hand"))
        assert edited.verdicts or edited.stored  # until one of them has written it again


async def test_what_agents_left_is_theirs_until_somebody_else_touches_it(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    import os
    from pathlib import Path

    def answer(prompt):
        if prompt == "list":
            return " ".join(sorted(os.listdir("out")))
        log = Path("log.txt")
        first = log.read_text().splitlines()[0]
        log.write_text(f"{first}\\n{os.getpid()}")
        Path("out", prompt).write_text(prompt)
        return first
    """,
    )
    folder.write("out/here", "")
    folder.write("log.txt", "one\n")
    folder.cases(lists="list", one="one")
    async with watching(folder.root) as watched:
        await watched.until_shown(one="PASSED")
        await asyncio.sleep(1.0)  # by then no agent runs that would write over what is saved, and all has been seen
        left = (folder.root / "log.txt").read_text()

        folder.write("log.txt", "two\n")
        await watched.until_shown(one="FAILED")
        await asyncio.sleep(1.0)
        folder.write("log.txt", left)
        await watched.until_shown(one="PASSED")

        await asyncio.sleep(1.0)
        deleted = await watched.after((folder.root / "out/one").unlink)
        assert deleted.verdicts == {"lists": "FAILED"}
        assert deleted.change.reason == "out: other files are in it"
        unrelated = await watched.after(lambda: folder.write("unrelated.txt", ""))
        assert unrelated.verdicts == {}


async def test_what_cannot_be_followed_runs_after_any_change(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    import subprocess

    def answer(prompt):
        if prompt == "down":
            subprocess.run(["true"], check=True)
        return prompt
    """,
    )
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        changed = await watched.after(lambda: folder.write("notes.txt", "x"))

        assert changed.verdicts == {"down": "PASSED"}
        assert "cannot be followed" in changed.change.reason


async def test_an_outage_is_no_verdict_and_no_unrelated_save_tries_it_again(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    def answer(prompt):
        if prompt == "down":
            raise ConnectionError("connection refused")
        return prompt
    """,
    )
    async with watching(folder.root, retries=0) as watched:
        start = await watched.until_quiet()
        assert start.verdicts["down"] == "ERROR"
        assert [e.result.case.eval_id for e in start.events if isinstance(e, VerdictKnown) and not e.holds] == ["down"]
        assert start.first(AllKnown).stale == 1

        unrelated = await watched.after(lambda: folder.write("notes.txt", "x"))
        assert unrelated.verdicts == {}

        mended = await watched.after(lambda: folder.write("agent.py", "def answer(prompt):\n    return prompt\n"))
        assert mended.verdicts["down"] == "PASSED"


async def test_an_exception_of_the_agent_is_a_verdict(folder: Folder) -> None:
    folder.write("agent.py", "def answer(prompt):\n    raise ValueError(prompt)\n")
    async with watching(folder.root) as watched:
        start = await watched.until_quiet()
        assert set(start.verdicts.values()) == {"ERROR"}
        assert start.first(AllKnown).stale == 0

    async with watching(folder.root) as watched:
        again = await watched.until_quiet()
        assert again.verdicts == {}
        assert set(again.stored.values()) == {"ERROR"}


async def test_a_set_that_is_broken_while_it_is_typed_keeps_its_cases(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        whole = (folder.root / "set.evalset.json").read_text()

        broken = await watched.after(lambda: folder.write("set.evalset.json", whole[:40]))
        assert "set.evalset.json" in broken.first(Notice).message
        assert broken.first(AllKnown).summary.total == 3

        mended = await watched.after(lambda: folder.write("set.evalset.json", whole))
        assert mended.verdicts == {}
        assert mended.first(AllKnown).summary.total == 3


async def test_nothing_runs_at_the_start_where_that_is_not_wanted(folder: Folder) -> None:
    async with watching(folder.root, catches_up=False) as watched:
        start = await watched.until_quiet()
        assert start.verdicts == {}
        assert start.first(AllKnown).stale == 3

        unrelated = await watched.after(lambda: folder.write("notes.txt", "x"))
        assert unrelated.verdicts == {}


async def test_changes_while_paused_are_made_up_for(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        watched.session.pause()
        folder.write("tools.py", TOOLS.replace("PREFIX + text", "text", 1))
        await asyncio.sleep(0.5)
        assert not any(isinstance(event, ChangeSeen) for event in watched.events)

        resumed = await watched.after(watched.session.resume)

        assert resumed.verdicts.keys() == {"up_1", "up_2"}


async def test_the_variables_of_env_files_count_where_they_are_read(folder: Folder) -> None:
    folder.write("workbench.toml", '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\n'
                 'eval_sets = ["*.evalset.json"]\nenv_file = ".env"\n')  # fmt: skip
    folder.write(".env", "GREETING=a\nUNUSED=b\n")
    folder.write(
        "agent.py",
        """
    import os

    def answer(prompt):
        return prompt + os.environ["GREETING"] if prompt == "down" else prompt
    """,
    )
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        unused = await watched.after(lambda: folder.write(".env", "GREETING=a\nUNUSED=c\n"))
        assert unused.verdicts == {}

        used = await watched.after(lambda: folder.write(".env", "GREETING=d\nUNUSED=c\n"))
        assert used.verdicts.keys() == {"down"}
        assert used.change.reason == "$GREETING has another value"


def _response(result: object) -> str:
    execution = result.execution  # type: ignore[attr-defined]
    text: str = execution.turns[-1].invocation.final_response.text()
    return text


async def _exists(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        await asyncio.sleep(0.02)


async def test_an_agent_that_appears_and_settings_that_break_are_taken_up(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        settings = (folder.root / "workbench.toml").read_text()

        broken = await watched.after(lambda: folder.write("workbench.toml", "[targets"))
        assert "workbench.toml" in broken.first(Notice).message
        assert broken.first(AllKnown).stale == 0

        other = await watched.after(lambda: folder.write("workbench.toml", settings.replace("agent:", "other.agent:")))
        assert set(other.verdicts.values()) == {"ERROR"}

        agent = "def answer(prompt):\n    return prompt\n"
        appeared = await watched.after(lambda: folder.write("other/agent.py", agent))
        assert set(appeared.verdicts.values()) == {"PASSED"}


async def test_what_the_target_names_concerns_all_its_cases(folder: Folder) -> None:
    settings = (folder.root / "workbench.toml").read_text()
    folder.write("workbench.toml", f'{settings}watch = ["prompts"]\n')
    folder.write("prompts/deep/a.txt", "a")
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        changed = await watched.after(lambda: folder.write("prompts/deep/a.txt", "b"))
        assert changed.verdicts.keys() == {"up_1", "up_2", "down"}
        assert changed.change.reason == "prompts changed"

        back = await watched.after(lambda: folder.write("prompts/deep/a.txt", "a"))
        assert back.verdicts == {}


async def test_a_project_without_cases_is_watched_and_the_first_one_runs(folder: Folder) -> None:
    (folder.root / "set.evalset.json").unlink()
    async with watching(folder.root) as watched:
        start = await watched.until_quiet()
        assert start.first(WatchStarted).total == 0
        (said,) = [event for event in start.events if isinstance(event, Notice) and "eval set" in event.message]
        assert "there is no eval set" in said.message

        came = await watched.after(lambda: folder.cases(down="down"))
        assert came.verdicts == {"down": "PASSED"}
        assert not came.has(Notice)

        gone = await watched.after((folder.root / "set.evalset.json").unlink)
        assert gone.first(AllKnown).summary.total == 0
        assert "there is no eval set" in gone.first(Notice).message

        back = await watched.after(lambda: folder.cases(down="down"))
        assert (back.verdicts, back.stored) == ({}, {"down": "PASSED"})


async def test_a_set_whose_agent_comes_later_runs_then(folder: Folder) -> None:
    settings = (folder.root / "workbench.toml").read_text()
    folder.write("workbench.toml", "")
    async with watching(folder.root) as watched:
        start = await watched.until_quiet()
        assert start.first(AllKnown).summary.total == 0
        assert "set.evalset.json" in start.first(Notice).message

        found = await watched.after(lambda: folder.write("workbench.toml", settings))
        assert set(found.verdicts) == {"up_1", "up_2", "down"}
