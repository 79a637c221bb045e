"""Cases, sets, settings and agents that are added, removed, broken and repaired during a watch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.watch.watched import TOOLS, Folder, watching
from workbench.model.run_events import Notice
from workbench.watch.snapshot import Snapshot
from workbench.watch.watch_events import AllKnown, SourceBroken, WatchStarted


async def test_cases_that_come_and_go_and_are_said_otherwise(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        changed = await watched.after(lambda: folder.cases(up_1="up one", down="down under", new="new"))

        assert changed.verdicts == {"down": "PASSED", "new": "PASSED"}
        assert changed.first(AllKnown).summary.total == 3

        renamed = await watched.after(lambda: folder.cases(first="up one", down="down under", new="new"))
        assert renamed.verdicts == {}
        assert renamed.stored == {"first": "PASSED"}


async def test_a_set_that_is_copied_with_its_size_and_time_is_read_again(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        path = folder.root / "set.evalset.json"

        def copy() -> None:
            times = path.stat().st_atime_ns, path.stat().st_mtime_ns
            path.write_text(path.read_text().replace("up one", "up 001"))
            os.utime(path, ns=times)

        copied = await watched.after(copy)

        assert copied.verdicts == {"up_1": "PASSED"}


async def test_source_that_cannot_be_compiled_is_reported_once_and_nothing_runs(folder: Folder) -> None:
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


async def test_source_that_can_be_parsed_and_not_compiled_is_waited_for(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        broken = await watched.after(lambda: folder.write("tools.py", TOOLS + "\nreturn 1\n"))

        assert broken.verdicts == {}
        said = broken.first(SourceBroken)
        assert (said.path, said.line, said.message) == ("tools.py", 10, "'return' outside function")


@pytest.mark.parametrize(
    "source", ["nonlocal x", "def f(a, a): pass", "x = 1; global x", "break", "await x", "class A:\n yield 1", "\0"]
)
def test_whatever_keeps_source_from_being_compiled_is_said(tmp_path: Path, source: str) -> None:
    (tmp_path / "tools.py").write_text(source)

    broken = Snapshot().find_broken_source(str(tmp_path / "tools.py"))

    assert broken is not None and broken.message


async def test_variables_that_are_read_all_at_once_or_by_the_system_count(folder: Folder) -> None:
    toml = (folder.root / "workbench.toml").read_text()
    folder.write("workbench.toml", toml + 'env_file = ".env"\n')
    folder.write(".env", "MODEL=a\n")
    folder.write(
        "agent.py",
        """
        import os, urllib.request

        def answer(prompt):
            if prompt == "all":
                dict(os.environ)
            if prompt == "proxies":
                urllib.request.getproxies()
            return prompt
        """,
    )
    folder.cases(all="all", proxies="proxies", none="none")
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        other = await watched.after(lambda: folder.write(".env", "MODEL=b\n"))
        assert other.verdicts.keys() == {"all"}

        proxy = await watched.after(lambda: folder.write(".env", "MODEL=b\nno_proxy=x\n"))
        assert proxy.verdicts.keys() == {"all", "proxies"}

        zone = await watched.after(lambda: folder.write(".env", "MODEL=b\nno_proxy=x\nTZ=Asia/Tokyo\n"))
        assert zone.verdicts.keys() == {"all", "proxies", "none"}


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
        assert used.change.reason == "$GREETING changed"


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


async def test_a_project_whose_files_are_gone_for_a_while_is_not_the_repository_around_it(
    folder: Folder, request: pytest.FixtureRequest
) -> None:
    around = folder.root.parent / ".git"
    around.mkdir()
    request.addfinalizer(around.rmdir)  # every later test of this process is in the same folder
    saved = {path.name: path.read_text() for path in folder.root.iterdir() if path.is_file()}
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        gone = await watched.after(lambda: [(folder.root / name).unlink() for name in saved])
        assert gone.first(AllKnown).summary.total == 0

        back = await watched.after(lambda: [folder.write(name, text) for name, text in saved.items()])
        assert (back.verdicts, set(back.stored.values())) == ({}, {"PASSED"})


async def test_it_is_said_whether_the_case_or_its_target_changed(folder: Folder) -> None:
    settings = (folder.root / "workbench.toml").read_text()
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        target = await watched.after(lambda: folder.write("workbench.toml", f'{settings}env_file = ".env"\n'))
        assert (target.change.run, target.change.reason) == (3, "the settings of its target changed")

        case = await watched.after(lambda: folder.cases(up_1="up 1", up_2="up two", down="down"))
        assert (case.change.run, case.change.reason) == (1, "the case changed")


async def test_the_module_that_was_added_is_named_among_many_lookups(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        came = await watched.after(lambda: folder.write("textwrap.py", ""))

        assert came.change.reason == "the project: import of textwrap may resolve differently"


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


async def test_what_the_target_comes_to_name_counts_for_older_verdicts(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = (folder.root / "workbench.toml").read_text()
    prompts = tmp_path_factory.mktemp("prompts") / "deep" / "a.txt"
    folder.write(str(prompts), "a")
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        named = await watched.after(
            lambda: folder.write("workbench.toml", f'{settings}watch = ["{prompts.parent.parent}"]\n')
        )
        assert named.verdicts.keys() == {"up_1", "up_2", "down"}
        assert "its target has new paths" in named.change.reason

        changed = await watched.after(lambda: folder.write(str(prompts), "b"))
        assert changed.verdicts.keys() == {"up_1", "up_2", "down"}


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
