"""Cases, sets, settings and agents that are added, removed, broken and repaired during a watch."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from tests.watch.watched import TOOLS, Folder, watch_project
from workbench.model.run_events import Notice
from workbench.watch.watch_events import AllKnown, ChangeSeen, SourceBroken, VerdictsReused


async def test_source_that_cannot_be_compiled_is_reported_once_and_nothing_runs(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        broken = await watch.apply(lambda: folder.write("tools.py", TOOLS + "\ndef half(:\n"))
        assert broken.verdicts == {}
        event = broken.first(SourceBroken)
        assert (event.path, event.line, event.cases) == ("tools.py", 10, 3)
        assert broken.first(AllKnown).stale == 3

        second_round = await watch.apply(lambda: folder.write("notes.txt", "x"))
        assert not second_round.has(SourceBroken)

        mended = await watch.apply(lambda: folder.write("tools.py", TOOLS))
        assert mended.verdicts == {}
        assert mended.first(AllKnown).stale == 0


async def test_source_that_parses_but_does_not_compile_runs_nothing(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        broken = await watch.apply(lambda: folder.write("tools.py", TOOLS + "\nreturn 1\n"))

        assert broken.verdicts == {}
        event = broken.first(SourceBroken)
        assert (event.path, event.line, event.message) == ("tools.py", 10, "'return' outside function")


async def test_variables_read_all_at_once_or_by_the_system_are_dependencies(folder: Folder) -> None:
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
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        other = await watch.apply(lambda: folder.write(".env", "MODEL=b\n"))
        assert other.verdicts.keys() == {"all"}

        proxy = await watch.apply(lambda: folder.write(".env", "MODEL=b\nno_proxy=x\n"))
        assert proxy.verdicts.keys() == {"all", "proxies"}

        zone = await watch.apply(lambda: folder.write(".env", "MODEL=b\nno_proxy=x\nTZ=Asia/Tokyo\n"))
        assert zone.verdicts.keys() == {"all", "proxies", "none"}


async def test_a_change_of_an_env_file_runs_only_cases_that_read_the_variable(folder: Folder) -> None:
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
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        unused = await watch.apply(lambda: folder.write(".env", "GREETING=a\nUNUSED=c\n"))
        assert unused.verdicts == {}

        used = await watch.apply(lambda: folder.write(".env", "GREETING=d\nUNUSED=c\n"))
        assert used.verdicts.keys() == {"down"}
        assert used.change.reason == "$GREETING changed"


async def test_the_reason_names_whether_the_case_or_its_target_changed(folder: Folder) -> None:
    settings = (folder.root / "workbench.toml").read_text()
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        target = await watch.apply(lambda: folder.write("workbench.toml", f'{settings}env_file = ".env"\n'))
        assert (target.change.run, target.change.reason) == (3, "the settings of its target changed")

        case = await watch.apply(lambda: folder.cases(up_1="up 1", up_2="up two", down="down"))
        assert (case.change.run, case.change.reason) == (1, "the case changed")


async def test_the_reason_names_the_added_module_among_many_lookups(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        added_round = await watch.apply(lambda: folder.write("textwrap.py", ""))

        assert added_round.change.reason == "the project: import of textwrap may resolve differently"


async def test_a_change_of_a_watch_path_runs_all_cases_of_the_target(folder: Folder) -> None:
    settings = (folder.root / "workbench.toml").read_text()
    folder.write("workbench.toml", f'{settings}watch = ["prompts"]\n')
    folder.write("prompts/deep/a.txt", "a")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        changed = await watch.apply(lambda: folder.write("prompts/deep/a.txt", "b"))
        assert changed.verdicts.keys() == {"up_1", "up_2", "down"}
        assert changed.change.reason == "prompts changed"

        restored = await watch.apply(lambda: folder.write("prompts/deep/a.txt", "a"))
        assert restored.verdicts == {}


async def test_a_new_watch_path_of_a_target_applies_to_older_verdicts(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = (folder.root / "workbench.toml").read_text()
    prompts = tmp_path_factory.mktemp("prompts") / "deep" / "a.txt"
    folder.write(str(prompts), "a")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        named = await watch.apply(
            lambda: folder.write("workbench.toml", f'{settings}watch = ["{prompts.parent.parent}"]\n')
        )
        assert named.verdicts.keys() == {"up_1", "up_2", "down"}
        assert "its target has new paths" in named.change.reason

        changed = await watch.apply(lambda: folder.write(str(prompts), "b"))
        assert changed.verdicts.keys() == {"up_1", "up_2", "down"}


async def test_a_quarantine_that_ends_with_the_day_is_reported_without_a_save(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Today(date):
        now = date(2026, 12, 24)

        @classmethod
        def today(cls) -> date:  # type: ignore[override]
            return cls.now

    monkeypatch.setattr("workbench.engine.plan.date", Today)
    monkeypatch.setattr("workbench.watch.watch_session.date", Today)
    monkeypatch.setattr("workbench.watch.watch_session._DAY_CHECK_INTERVAL", 0.05)
    folder.write("tools.py", TOOLS.replace('PREFIX = ""', 'PREFIX = "wrong words only "'))
    folder.write("set.evalset.workbench.json", '{"quarantine": {"down": {"until": "2026-12-24"}}}')
    async with watch_project(folder.root) as watch:
        assert (await watch.wait_until_quiet()).first(AllKnown).summary.quarantined == 1

        Today.now += timedelta(1)
        ended = await watch.wait_until_quiet()

        assert ended.first(Notice).message == (
            "set.evalset.json:down: its quarantine ended on 2026-12-24, so its verdict counts again"
        )
        assert {job.case.name for job in ended.first(VerdictsReused).verdicts} == {"down"}
        assert (ended.first(AllKnown).summary.failed, ended.first(AllKnown).summary.quarantined) == (3, 0)


async def test_a_quarantine_counts_from_its_save_on_and_runs_nothing(folder: Folder) -> None:
    folder.write("tools.py", TOOLS.replace('PREFIX = ""', 'PREFIX = "wrong words only "'))
    sidecar = "set.evalset.workbench.json"
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        begun = await watch.apply(lambda: folder.write(sidecar, '{"quarantine": {"down": {"until": "2999-01-01"}}}'))
        damaged = await watch.apply(lambda: folder.write(sidecar, "{"))

        assert begun.verdicts == {}
        assert begun.first(ChangeSeen).quarantines == ("set.evalset.json:down: quarantined until 2999-01-01",)
        assert {job.case.name for job in begun.first(VerdictsReused).verdicts} == {"down"}
        assert damaged.first(ChangeSeen).quarantines == (
            "set.evalset.json:down: no longer in quarantine, so its verdict counts again",
        )
        assert {job.case.name for job in damaged.first(VerdictsReused).verdicts} == {"down"}
        assert (begun.first(AllKnown).summary.failed, begun.first(AllKnown).summary.quarantined) == (2, 1)
        assert "none of its cases is in quarantine" in damaged.first(Notice).message
        assert (damaged.first(AllKnown).summary.failed, damaged.first(AllKnown).summary.quarantined) == (3, 0)
