"""Side effects and failures of agents: they write files, start programs, raise, and have outages."""

from __future__ import annotations

import asyncio
import os
import shutil

from tests.interpreters import find_interpreter
from tests.serving import run_model_server
from tests.watch.watched import Folder, watch_project
from workbench.model.run_events import Notice
from workbench.model.target import ModelMode
from workbench.watch.watch_events import AllKnown, ChangeSeen, SourceBroken, VerdictKnown, WatchRunStarted


async def test_files_that_an_agent_writes_into_its_folder_cause_no_endless_runs(folder: Folder) -> None:
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
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        await asyncio.sleep(1.0)
        started_runs = [event for event in watch.events if isinstance(event, WatchRunStarted)]

        assert started_runs == []
        assert not any(isinstance(event, Notice) for event in watch.events)

        edited = await watch.apply(lambda: folder.write("log.txt", "by hand"))
        assert edited.change.run  # its verdict may be the earlier one: an agent has written the file again


async def test_files_written_by_agents_are_current_until_changed_by_hand(folder: Folder) -> None:
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
    async with watch_project(folder.root) as watch:
        await watch.wait_for_statuses(one="PASSED")
        await asyncio.sleep(1.0)  # by then no agent runs that could overwrite a save, and all changes are seen
        agent_text = (folder.root / "log.txt").read_text()

        folder.write("log.txt", "two\n")
        await watch.wait_for_statuses(one="FAILED")
        await asyncio.sleep(1.0)
        folder.write("log.txt", agent_text)
        await watch.wait_for_statuses(one="PASSED")

        await asyncio.sleep(1.0)
        deleted = await watch.apply((folder.root / "out/one").unlink)
        assert deleted.verdicts == {"lists": "FAILED"}
        assert deleted.change.reason == "out: its list of files changed"
        unrelated = await watch.apply(lambda: folder.write("unrelated.txt", ""))
        assert unrelated.verdicts == {}


async def test_paths_that_a_first_run_created_or_looked_for_are_dependencies(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    import os
    from pathlib import Path

    def cache(prompt):
        Path("cache").mkdir(exist_ok=True)
        value = Path("cache/value")
        if not value.exists():
            value.write_text(prompt)
        return value.read_text()

    def models(prompt):
        Path("models").mkdir(exist_ok=True)
        return " ".join([prompt, *os.listdir("models")])

    def log(prompt):
        with open("log.txt", "a") as stream:
            stream.write("x")
        return prompt if open("log.txt").read().strip("x") == "" else "edited"

    def rename(prompt):
        try:
            os.rename("none", "target")
        except FileNotFoundError:
            pass
        return "edited" if os.path.exists("target") else prompt

    def answer(prompt):
        return globals()[prompt](prompt)
    """,
    )
    folder.cases(cache="cache", models="models", log="log", rename="rename")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        await asyncio.sleep(1.0)
        assert not any(isinstance(event, WatchRunStarted) for event in watch.events)

        edits = {"cache": "cache/value", "models": "models/new", "log": "log.txt", "rename": "target"}
        for case, name in edits.items():
            edited = await watch.apply(lambda name=name: (folder.root / name).write_text("edited"))
            assert edited.verdicts == {case: "FAILED"}


async def test_a_case_that_makes_a_deleted_folder_again_runs_once(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    from pathlib import Path

    def answer(prompt):
        store = Path("store")
        store.mkdir(exist_ok=True)
        return " ".join([prompt, *sorted(path.name for path in store.iterdir())])
    """,
    )
    folder.cases(one="one")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        await asyncio.sleep(1.0)
        await watch.apply(lambda: folder.write("store/new", ""))
        await watch.apply((folder.root / "store/new").unlink)
        deleted = await watch.apply(lambda: shutil.rmtree(folder.root / "store"))

        assert sum(isinstance(event, WatchRunStarted) for event in deleted.events) == 1
        assert not any(isinstance(event, Notice) for event in deleted.events)


async def test_a_case_with_opaque_dependencies_runs_after_any_change(folder: Folder) -> None:
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
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        changed = await watch.apply(lambda: folder.write("notes.txt", "x"))

        assert changed.verdicts == {"down": "PASSED"}
        assert "cannot be tracked" in changed.change.reason


async def test_a_program_that_writes_files_causes_no_endless_runs_of_its_case(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    import subprocess

    def answer(prompt):
        subprocess.run(["sh", "-c", "date +%N > out.txt"], check=True)
        return prompt
    """,
    )
    folder.cases(one="one")
    async with watch_project(folder.root) as watch:
        await watch.wait_for(Notice)
        await asyncio.sleep(1.5)
        runs = [event for event in watch.events if isinstance(event, WatchRunStarted)]
        notices = [event.message for event in watch.events if isinstance(event, Notice)]

        assert len(runs) <= 4
        assert [message.partition(":")[2].partition(":")[0] for message in notices] == ["one is stale after every run"]

        edited = await watch.apply(lambda: folder.write("notes.txt", "x"))
        assert edited.verdicts == {"one": "PASSED"}


async def test_a_program_that_rewrites_another_file_each_time_causes_no_endless_runs(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    import subprocess

    def answer(prompt):
        subprocess.run(["sh", "-c", "date +%N > $(grep -l unchanged out/* | head -n 1)"], check=True)
        return prompt
    """,
    )
    for number in range(30):
        folder.write(f"out/{number}", "unchanged")
    folder.cases(one="one")
    async with watch_project(folder.root) as watch:
        await watch.wait_for(Notice)
        await asyncio.sleep(1.5)
        runs = [event for event in watch.events if isinstance(event, WatchRunStarted)]

        assert len(runs) <= 8


async def test_a_case_that_its_own_program_makes_outdated_gets_a_verdict(folder: Folder) -> None:
    """The program writes at the start of the run, so that the change is seen before the case has ended."""
    folder.write(
        "agent.py",
        """
    import pathlib
    import subprocess
    import time

    def answer(prompt):
        pathlib.Path("out.txt").read_text()
        subprocess.run(["sh", "-c", "date +%N > out.txt"], check=True)
        time.sleep(0.5)
        return prompt
    """,
    )
    folder.write("out.txt", "start")
    folder.cases(one="one")
    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()

        assert start.verdicts == {"one": "PASSED"}
        assert len([event for event in start.events if isinstance(event, WatchRunStarted)]) <= 7


async def test_many_saves_while_a_case_with_a_program_runs_end_with_a_current_verdict(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    import pathlib
    import subprocess

    def answer(prompt):
        text = pathlib.Path("data.txt").read_text()
        subprocess.run(["sleep", "0.3"], check=True)
        return text
    """,
    )
    folder.write("data.txt", "start")
    folder.cases(one="end")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        for number in range(30):
            folder.write("data.txt", "end" if number == 29 else f"on {number}")
            await asyncio.sleep(0.05)
        await watch.wait_for_statuses(one="PASSED")

        assert not any(isinstance(event, Notice) for event in watch.events)
        assert {event.run for event in watch.events if isinstance(event, ChangeSeen)} == {1}


async def test_repeated_saves_right_after_a_run_are_not_mistaken_for_its_own_work(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    import subprocess

    def answer(prompt):
        return subprocess.run(["cat", "data.txt"], check=True, capture_output=True, text=True).stdout
    """,
    )
    folder.write("data.txt", "start")
    folder.cases(one="end")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        for number in range(8):
            await asyncio.sleep(0.2)
            saved = await watch.apply(lambda number=number: folder.write("data.txt", "end" if number == 7 else "on"))
            assert saved.verdicts.keys() == {"one"}

        assert watch.get_statuses() == {"one": "PASSED"}
        assert not any(isinstance(event, Notice) for event in watch.events)


async def test_an_edit_right_after_a_case_that_changes_files_runs_it(folder: Folder) -> None:
    """In a process that cases share, a program may write after the end of its case: any change may be its own."""
    folder.write(
        "agent.py",
        """
    import pathlib
    import subprocess

    def answer(prompt):
        subprocess.run(["sh", "-c", "mkdir -p out; date +%N > out/$$.txt; date +%N > out.txt"], check=True)
        text = pathlib.Path("data/text.txt")
        return text.read_text() if text.exists() else "gone"
    """,
    )
    folder.write("data/text.txt", "start")
    folder.write("workbench.toml", f'{(folder.root / "workbench.toml").read_text()}[run]\nisolation = "worker"\n')
    folder.cases(one="end", two="gone")
    async with watch_project(folder.root) as watch:
        await watch.wait_for(Notice)
        await watch.wait_until_quiet()

        folder.write("data/text.txt", "end")
        await watch.wait_for_statuses(one="PASSED", two="FAILED")
        (folder.root / "data/text.txt").rename(folder.root / "data/texts.txt")
        await watch.wait_for_statuses(one="FAILED", two="PASSED")


async def test_a_hanging_case_runs_again_when_the_hanging_function_is_edited(folder: Folder) -> None:
    original_text = (folder.root / "tools.py").read_text()
    async with watch_project(folder.root, timeout_seconds=1.0) as watch:
        await watch.wait_until_quiet()

        slow = original_text.replace("def lower(text):", "def lower(text):\n    while True: pass")
        broken = await watch.apply(lambda: folder.write("tools.py", slow))
        assert broken.verdicts == {"down": "ERROR"}
        assert not broken.has(Notice)
        assert len([event for event in broken.events if isinstance(event, WatchRunStarted)]) == 1

        unrelated = await watch.apply(lambda: folder.write("notes.txt", "x"))
        assert unrelated.verdicts == {}
        other = await watch.apply(lambda: folder.write("tools.py", slow.replace("PREFIX + text", "text + PREFIX", 1)))
        assert other.verdicts == {"up_1": "PASSED", "up_2": "PASSED"}

        quick_source = slow.replace("while True: pass", "text = str(text)")
        mended = await watch.apply(lambda: folder.write("tools.py", quick_source))
        assert mended.verdicts["down"] == "PASSED"


async def test_a_case_that_hangs_again_after_an_undo_runs_again(folder: Folder) -> None:
    """The stored timeout is no verdict that could replace the shown one."""
    quick = (folder.root / "tools.py").read_text()
    slow = quick.replace("def lower(text):", "def lower(text):\n    while True: pass")
    async with watch_project(folder.root, timeout_seconds=1.0) as watch:
        await watch.wait_until_quiet()
        assert (await watch.apply(lambda: folder.write("tools.py", slow))).verdicts == {"down": "ERROR"}
        assert (await watch.apply(lambda: folder.write("tools.py", quick))).stored_verdicts == {"down": "PASSED"}

        again = await watch.apply(lambda: folder.write("tools.py", slow))

        assert again.verdicts == {"down": "ERROR"}
        assert again.change.reason == "tools.py: lower() changed"
        assert len([event for event in again.events if isinstance(event, WatchRunStarted)]) == 1


async def test_a_case_whose_process_died_runs_again_only_after_a_change(folder: Folder) -> None:
    original_text = (folder.root / "tools.py").read_text()
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        deadly = original_text.replace("def lower(text):", "def lower(text):\n    __import__('os')._exit(3)")
        broken = await watch.apply(lambda: folder.write("tools.py", deadly))
        assert broken.verdicts == {"down": "ERROR"}
        assert len([event for event in broken.events if isinstance(event, WatchRunStarted)]) == 1
        await asyncio.sleep(0.5)
        assert not any(isinstance(event, WatchRunStarted) for event in watch.events)

        mended = await watch.apply(lambda: folder.write("tools.py", deadly.replace("_exit(3)", "getpid()")))
        assert mended.verdicts["down"] == "PASSED"


async def test_changed_times_modes_and_links_run_the_cases_that_read_them(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    import os
    from pathlib import Path

    def answer(prompt):
        return LOOKS[prompt]()

    def newest():
        return max(os.listdir("notes"), key=lambda name: os.path.getmtime(f"notes/{name}"))

    LOOKS = {
        "one": newest,
        "x": lambda: "x" if os.access("notes/one", os.X_OK) else "-",
        "two": lambda: os.readlink("link"),
        "3": lambda: str(Path("notes/one").stat().st_size),
    }
    """,
    )
    for name in ("two", "one"):
        folder.write(f"notes/{name}", name)
        os.utime(folder.root / "notes" / name, (1e9, 1e9 + len(name) + (name == "one")))
    link = folder.root / "link"
    link.symlink_to("two")
    folder.cases(newest="one", mode="x", link="two", size="3")
    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()
        assert start.verdicts == {"newest": "PASSED", "mode": "FAILED", "link": "PASSED", "size": "PASSED"}

        touched = await watch.apply((folder.root / "notes/two").touch)
        assert touched.verdicts == {"newest": "FAILED"}
        assert touched.change.reason == "notes/two: its modification time changed"

        allowed = await watch.apply(lambda: (folder.root / "notes/one").chmod(0o755))
        assert allowed.verdicts == {"mode": "PASSED"}
        assert allowed.change.reason == "notes/one: its mode or owner changed"

        link_round = await watch.apply(lambda: (link.unlink(), link.symlink_to("notes/one")))
        assert link_round.verdicts == {"link": "FAILED"}


async def test_an_outage_is_not_a_verdict_and_runs_again_only_after_a_relevant_change(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
    def answer(prompt):
        if prompt == "down":
            raise ConnectionError("connection refused")
        return prompt
    """,
    )
    async with watch_project(folder.root, retries=0) as watch:
        start = await watch.wait_until_quiet()
        assert start.verdicts["down"] == "ERROR"
        assert [e.result.case.eval_id for e in start.events if isinstance(e, VerdictKnown) and not e.holds] == ["down"]
        assert start.first(AllKnown).stale == 1

        unrelated = await watch.apply(lambda: folder.write("notes.txt", "x"))
        assert unrelated.verdicts == {}

        mended = await watch.apply(lambda: folder.write("agent.py", "def answer(prompt):\n    return prompt\n"))
        assert mended.verdicts["down"] == "PASSED"


async def test_an_exception_of_the_agent_is_a_verdict(folder: Folder) -> None:
    folder.write("agent.py", "def answer(prompt):\n    raise ValueError(prompt)\n")
    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()
        assert set(start.verdicts.values()) == {"ERROR"}
        assert start.first(AllKnown).stale == 0

    async with watch_project(folder.root) as watch:
        second_round = await watch.wait_until_quiet()
        assert second_round.verdicts == {}
        assert set(second_round.stored_verdicts.values()) == {"ERROR"}


async def test_source_for_a_newer_interpreter_of_the_agent_is_tracked(folder: Folder) -> None:
    folder.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        f'python = "{find_interpreter("3.13")}"\n',
    )
    source = """
        type Text = str

        def answer(prompt: Text) -> Text:
            made = {"it": prompt}
            return f"{made["it"]}"

        def unused[T](value: T) -> T:
            return value
        """
    folder.write("agent.py", source)
    folder.cases(one="hello")

    async with watch_project(folder.root) as watch:
        assert (await watch.wait_until_quiet()).verdicts == {"one": "PASSED"}

        other = source.replace("return value", "return (value, 1)")
        assert not (await watch.apply(lambda: folder.write("agent.py", other))).verdicts

        wrong = source.replace('"it": prompt', '"it": prompt + "!"')
        assert (await watch.apply(lambda: folder.write("agent.py", wrong))).verdicts == {"one": "FAILED"}

        broken = source.replace("type Text = str", "type Text = = str")
        folder.write("agent.py", broken)
        source_broken = await watch.wait_for(SourceBroken)
        assert (source_broken.path, source_broken.line) == ("agent.py", 2)

        assert (await watch.apply(lambda: folder.write("agent.py", source))).stored_verdicts == {"one": "PASSED"}


async def test_a_watch_that_asks_models_runs_cases_whose_answers_were_replayed(folder: Folder) -> None:
    with run_model_server(secret="x") as server:
        agent = f"""
    import httpx

    def answer(prompt):
        body = {{"messages": [{{"role": "user", "content": prompt}}]}}
        headers = {{"Authorization": "x"}}
        httpx.post("{server.url}/v1/chat/completions", json=body, headers=headers).raise_for_status()
        return prompt * 1
    """
        folder.write("agent.py", agent)
        folder.cases(one="one")
        async with watch_project(folder.root, models=ModelMode.AUTO) as watch:
            await watch.wait_until_quiet()
            await watch.apply(lambda: folder.write("agent.py", agent.replace("* 1", "* int(1)")))
        assert server.count == 1

        async with watch_project(folder.root, models=ModelMode.AUTO) as watch:
            assert (await watch.wait_until_quiet()).stored_verdicts == {"one": "PASSED"}
        async with watch_project(folder.root, models=ModelMode.LIVE) as watch:
            assert (await watch.wait_until_quiet()).verdicts == {"one": "PASSED"}

        assert server.count == 2
